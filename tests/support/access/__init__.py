"""Identities, keys and certificates for tests."""
