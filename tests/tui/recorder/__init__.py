"""Recordings of the dashboard."""
