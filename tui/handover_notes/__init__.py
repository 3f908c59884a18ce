"""Notes for the operator who takes over, written from a recording."""
