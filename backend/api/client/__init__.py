"""The clients of a backend: one on httpx, one on the standard library."""
