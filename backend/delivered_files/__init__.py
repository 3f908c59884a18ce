"""Files that the data pipeline leaves on disk, and which of them hold."""
