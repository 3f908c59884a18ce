"""What a change would touch, before it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would touch, by the cluster at one moment."""

    sentence: str
    """For an operator: touches 3 brokers and 2 topics, lifts 1 throttle, ..."""
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""
    """Sent with the change, which is refused where the cluster has changed since."""
