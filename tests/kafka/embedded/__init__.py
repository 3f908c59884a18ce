"""The embedded cluster compared with real brokers."""
