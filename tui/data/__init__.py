"""What the dashboard knows: the store, the polling that fills it, and the playback of recordings."""
