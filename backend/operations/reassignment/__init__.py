"""Reassignments from request to end, and the engine that ticks them."""
