"""Replication throttles (KIP-73, KIP-179): rates, lists, owners."""
