"""Changing throttles on request, and repairing those that are not right."""
