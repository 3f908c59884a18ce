"""The overview: screen and sections."""
