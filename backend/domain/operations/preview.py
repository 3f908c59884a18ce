"""What a change would touch, before it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a change, by the cluster at one moment."""

    sentence: str
    """For an operator: touches 3 brokers and 2 topics, lifts 1 throttle, ..."""
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""
    """Sent with the change, which is rejected if the cluster has changed since then."""
    action: str = ""
    """A verb: `start`, `cancel`, `pause`, `elect`, `throttle`."""
    brokers: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    partitions: int = 0
    """How many would change, or get faster or slower copies."""
    copy_bytes: int = 0
    """Bytes that would be copied, as far as sizes are known."""
    unknown_sizes: int = 0
    """Partitions to be copied whose size is not known, and is not in `copy_bytes`."""
    throttles_set: tuple[str, ...] = ()
    """Whose throttle would be set or changed: `broker 3`, `topic orders`."""
    throttles_lifted: tuple[str, ...] = ()
    leaders_moving: int = 0
    at_min_isr: int = 0
    """Touched partitions with exactly `min.insync.replicas` in sync."""
    under_min_isr: int = 0
