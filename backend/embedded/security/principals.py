"""Principals, as Kafka writes them: `User:alice`."""

from __future__ import annotations

from typing import Final

USER: Final = "User"
"""The only type of principal that Kafka's brokers give to a client."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""A client that did not authenticate."""
WILDCARD: Final = "User:*"
"""In an ACL: every principal."""


def user(name: str) -> str:
    """The principal of an authenticated user."""
    return f"{USER}:{name}"
