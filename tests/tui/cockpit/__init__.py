"""The overview of a large terminal: its facts, its parts, its keys."""
