"""Reassignments: the RPC of KIP-179, or composed."""
