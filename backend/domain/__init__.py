"""Frozen values and pure functions: clusters, snapshots, throttles, plans, operations."""
