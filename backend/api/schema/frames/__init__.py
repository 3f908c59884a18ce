"""Snapshots as Arrow IPC streams, written and read."""
