"""Connections that are accepted, limited, and secured by TLS."""
