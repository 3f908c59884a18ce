"""What the dashboard knows: the store, the polling that fills it, playback of recordings."""
