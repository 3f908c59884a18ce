"""Streams of snapshots: states that follow each other, and what an earlier backend sent."""
