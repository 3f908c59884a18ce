"""Partition shrinks on real brokers."""
