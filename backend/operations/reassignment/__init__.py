"""Reassignments from request to end."""
