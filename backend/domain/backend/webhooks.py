"""How a webhook of a backend goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """What is known of one hook since the backend's start."""

    name: str
    """Host and hash of its address, which itself may be a secret."""
    delivered: int
    """Messages that arrived."""
    failed: int
    """Attempts that came to nothing."""
    given_up: int
    """Messages that are among the dead letters."""
    waiting: int
    stopped: bool
    """True once the receiver has said that it wants nothing any more (410)."""
