"""Requests that one backend passes on to the active one, signed."""
