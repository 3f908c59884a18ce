"""Replicas as the API answers them: as they were seen last, and their exact lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kshunt.backend.domain.replicas.stuck_causes import RateNeed

StatusKey = Literal["in_sync", "behind", "lag_unknown", "offline"]
"""A `ReplicaStatus`, in small letters."""
ModeKey = Literal["readwrite", "readonly", "none"]
"""A `PartitionMode.key`."""
CauseKey = Literal[
    "broker_down",
    "log_dir_offline",
    "no_leader",
    "controller",
    "source_unreachable",
    "throttle_floor",
    "throttle_too_low",
    "throttle_orphan",
    "remaining_out_of_isr",
    "disk_full",
    "log_dir_move",
    "waiting_turn",
    "copy_too_slow",
    "too_short",
    "paused",
    "deletion_waits",
]
"""A `Cause.key`."""


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica; null means unknown, which is never 0."""

    topic: str
    partition: int
    broker: int
    position: int
    """In the partition's list of replicas."""
    leader: int | None
    in_isr: bool
    adding: bool
    removing: bool
    leader_throttled: bool
    follower_throttled: bool
    status: StatusKey
    log_end_offset: int | None
    lag_messages: int | None
    size_bytes: int | None
    lag_bytes: int | None
    log_dir: str | None
    catch_up_messages_per_s: float | None
    catch_up_bytes_per_s: float | None
    fetched_bytes_per_s: float | None
    eta_s: float | None
    never: bool
    """True where it falls behind faster than it catches up."""
    sampled_ms: int | None
    stale: bool
    mode: ModeKey
    """Of the partition (KIP-694); readwrite is the usual one."""
    deletes_ms: int | None
    """When the data of a readonly partition is deleted."""
    stuck: bool = False
    """True where somebody must act before it can arrive."""
    cause: CauseKey | None = None
    """Why it does not advance; null where it does."""
    reason: str | None = None
    action: str | None = None
    """What to do next; empty where nothing is to be done."""
    rates: tuple[RateNeed, ...] = ()
    """The throttles that are too low."""


@dataclass(frozen=True, slots=True)
class ReplicaPage:
    """A page of replicas."""

    version: int
    """Of the snapshot; it grows."""
    taken_ms: int
    matching: int
    """How many pass the filters."""
    replicas: tuple[ReplicaRow, ...]


@dataclass(frozen=True, slots=True)
class MeasuredReplica:
    """KIP-179 early draft, ReplicaStatus."""

    topic: str
    partition: int
    broker: int
    """-1 where there is no such partition."""
    in_isr: bool
    """Level with its leader, as replica.lag.time.max.ms has it."""
    lag_messages: int | None
    """Null where it is not known."""
    status_time_ms: int | None
    """When that was; null where it is not known."""
    error_code: int
    error_name: str
    message: str


@dataclass(frozen=True, slots=True)
class MeasuredReplicas:
    """The lag of every requested replica."""

    replicas: tuple[MeasuredReplica, ...]
