"""Whose a throttle is, and what will be back once it has come off. Plain values.

One that is ours may have drifted: somebody else changed it. An orphan is nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What one operation wants of one setting."""

    operation: str
    """Its id."""
    who: str
    """Who asked for it, by their own words; empty where that is not known."""
    wants: str
    """`1000 B/s`, `no rate`, or a list of replicas."""
    state: str
    """`held` while the operation needs it, `ending` while it is taken off, `left` where it was
    told to leave it on."""


@dataclass(frozen=True, slots=True)
class OwnedThrottle:
    """One rate of a broker, or one list of a topic, in which operations of ours have a share."""

    setting: str
    """Kafka's config name."""
    broker: int | None
    """Whose rate it is; None for a topic's list."""
    topic: str | None
    value: str | None
    """What is in force; None where it could not be read."""
    source: str
    """Where a rate in force is from, as Kafka's config source; empty for a list, or unread."""
    prior: str | None
    """What comes back in the end; None where it was never read."""
    prior_source: str
    """Where that is from, likewise."""
    shares: tuple[Share, ...]
    """Of every operation that counts, by its id."""
    drift: str = ""
    """What somebody else did to it: `deleted`, `changed`, `widened` or `narrowed`."""


@dataclass(frozen=True, slots=True)
class ShownDrift:
    """A throttle of ours that somebody else changed."""

    id: str
    """Another one as soon as either value is."""
    setting: str
    """Kafka's config name."""
    broker: int | None
    """Whose rate it is; None for a topic's list."""
    topic: str | None
    kind: str
    """`deleted`, `changed`, `widened` or `narrowed`."""
    wanted: str
    """`1000 B/s`, `no rate`, or a list of replicas."""
    found: str
    operations: tuple[str, ...] = ()
    """Ids of the operations that need it."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ShownOrphan:
    """A throttle that no move justifies."""

    id: str
    """Another one as soon as its value is."""
    setting: str
    broker: int | None
    topic: str | None
    value: str
    origin: str
    """Where it is likely to be from, in words."""
    operations: tuple[str, ...] = ()
