"""The embedded cluster compared with real brokers, and Apache's own tools on it."""
