"""Telling a webhook what changed: what is worth a message, and that each arrives or is kept."""
