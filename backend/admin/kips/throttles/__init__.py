"""Throttles: the RPCs of KIP-179, or configurations; what speaks against them."""
