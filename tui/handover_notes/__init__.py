"""Notes for whoever takes over, written from a recording."""
