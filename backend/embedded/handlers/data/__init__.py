"""Produce, Fetch and offsets: what producers and consumers ask leaders."""
