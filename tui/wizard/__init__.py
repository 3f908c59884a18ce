"""Changes that need choices first: one frame, filled by data."""
