"""Everything that changes a cluster."""
