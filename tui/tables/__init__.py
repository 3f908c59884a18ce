"""What the grid shows: rows derived from a snapshot, computed off the event loop."""
