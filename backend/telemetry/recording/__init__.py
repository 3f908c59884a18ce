"""From snapshots to recorded samples: rows, files, what is kept of them, and a topic instead."""
