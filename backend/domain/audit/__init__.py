"""The audit: its lines, and how they are written for people."""
