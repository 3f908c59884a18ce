"""The partitions view: its table, its groups and its cells."""
