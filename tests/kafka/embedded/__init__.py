"""The embedded cluster beside real brokers."""
