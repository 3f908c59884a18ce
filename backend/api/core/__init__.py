"""One backend: its cluster, its operations, its events, its streams."""
