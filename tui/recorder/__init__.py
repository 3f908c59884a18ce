"""The flight recorder: what the dashboard was told, on file, and played back."""
