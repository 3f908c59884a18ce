"""A cluster that is reached through its brokers."""
