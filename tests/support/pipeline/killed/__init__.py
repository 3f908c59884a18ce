"""Processes that are killed while they make or maintain results."""
