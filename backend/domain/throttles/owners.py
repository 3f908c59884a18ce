"""Whose a throttle is, and what will be back once it is removed. Plain values.

One that is ours may have drifted: somebody else changed it. An orphan is nobody's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ShareState(enum.StrEnum):
    """The state of a share."""

    HELD = "held"
    """Its operation needs it."""
    ENDING = "ending"
    """It is being lifted: decided, and not yet seen to be gone. Rates only."""
    LEFT = "left"
    """Its operation has ended and was told to leave its throttle on."""
    PAST = "past"
    """Left on, and replaced or taken for the prior value since; kept to tell where it is from."""


class DriftKind(enum.StrEnum):
    """What somebody else did."""

    DELETED = "deleted"
    """The broker's own rate is gone."""
    CHANGED = "changed"
    """Another rate is set."""
    WIDENED = "widened"
    """Replicas are listed that neither we nor the prior list name."""
    NARROWED = "narrowed"
    """Replicas are not listed that we need, or that were listed before."""


class OrphanOrigin(enum.StrEnum):
    """The likely origin of an orphan."""

    LEFT_BY_US = "left_by_us"
    """An operation of ours was told to leave it."""
    ENDED_MOVE = "ended_move"
    """A move has ended, and Kafka's own tool leaves it until `--verify`."""
    CANCELLED_MOVE = "cancelled_move"
    UNLISTED_RATE = "unlisted_rate"
    """A rate on a broker that no list names: it has no effect."""
    NO_SUCH_PARTITION = "no_such_partition"
    """It names a partition that does not exist."""
    UNKNOWN = "unknown"
    """Perhaps an operator set it."""

    @classmethod
    def _missing_(cls, value: object) -> OrphanOrigin:
        """What another version says is not known here; version 0.1 wrote a sentence."""
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class SettingValue:
    """What a throttle setting says: a broker's rate, or a topic's list."""

    rate_bytes_per_s: int | None = None
    """None where there is no rate, and for a list."""
    replicas: str | None = None
    """A list in Kafka's notation, as `0:101,0:102`, `*`, or nothing; None for a rate."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one operation wants of one setting."""

    operation: str
    """Its id."""
    who: str
    """The person who asked for it, as they gave their name; empty if unknown."""
    state: ShareState
    wanted_value: SettingValue | None = None
    """What it wants; None where the backend is too old to tell."""


@dataclass(frozen=True, slots=True)
class OwnedThrottle:
    """One rate of a broker, or one list of a topic, in which operations of ours have a share."""

    setting: str
    """Kafka's config name."""
    broker: int | None
    """Whose rate it is; None for a topic's list."""
    topic: str | None
    source: str
    """Where a rate in force is from, as Kafka's config source; empty for a list, or unread."""
    prior_source: str
    """Where the prior rate is from, likewise."""
    shares: tuple[Share, ...]
    """Of every operation that counts, by its id."""
    present_value: SettingValue | None = None
    """What is in force; None where it could not be read."""
    prior_value: SettingValue | None = None
    """The value that is restored at the end; None if it was never read."""
    drift_kind: DriftKind | None = None
    """What somebody else did to it."""


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
    kind: DriftKind
    wanted_value: SettingValue | None = None
    """What it should be; None where the backend is too old to tell."""
    found_value: SettingValue | None = None
    """What it is, likewise."""
    changed_replicas: str = ""
    """Those that were put into a list or taken out of it, in Kafka's notation."""
    operations: tuple[str, ...] = ()
    """Ids of the operations that need it."""


@dataclass(frozen=True, slots=True)
class ShownOrphan:
    """A throttle that no move needs."""

    id: str
    """Another one as soon as its value is."""
    setting: str
    """Kafka's config name."""
    broker: int | None
    """Whose rate it is; None for a topic's list."""
    topic: str | None
    origin: OrphanOrigin
    present_value: SettingValue | None = None
    """What is set; None where the backend is too old to tell."""
    operations: tuple[str, ...] = ()
    """Ids of our operations that left it."""
