"""JSON of the API, both ways: what client and server share; no framework."""
