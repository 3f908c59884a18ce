"""What the journal keeps of each operation, its throttles and its team."""
