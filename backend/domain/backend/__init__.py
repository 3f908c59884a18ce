"""What a backend says of itself: its part, its webhooks."""
