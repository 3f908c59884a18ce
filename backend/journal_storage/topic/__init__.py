"""The journal in a compacted topic."""
