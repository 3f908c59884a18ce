"""What is computed of a snapshot, off the event loop, for more than one view."""
