"""Whose a setting is."""
