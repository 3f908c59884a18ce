"""What the controller remembers: records, the image they add up to, and their log on disk."""
