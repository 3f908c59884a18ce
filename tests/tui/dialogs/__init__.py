"""Dialogues of the dashboard."""
