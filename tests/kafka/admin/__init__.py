"""The admin backend on real brokers."""
