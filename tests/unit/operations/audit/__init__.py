"""The audit of operations."""
