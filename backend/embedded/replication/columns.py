"""The columns that a simulated cluster's replication lives in, and what it reports.

A replica or a partition gets its row when it is added, and keeps it until it is removed. A freed
row is handed out again, the one freed last first. Brokers and log
directories are numbered in the order in which they are added.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
NOWHERE: Final = -1
"""No row, no directory."""


class BrokerState(enum.IntEnum):
    """Only a broker that is UP moves data; the others' replicas stand still."""

    UP = 0
    DOWN = 1
    STALLED = 2
    """It runs and answers nothing."""


@dataclass(frozen=True, slots=True)
class IsrShrink:
    """A leader wants a follower out of the ISR: replica.lag.time.max.ms has passed."""

    at_ms: int
    partition: int
    replica: int
    broker: int


@dataclass(frozen=True, slots=True)
class IsrExpand:
    """A leader wants a follower in the ISR: it has reached the high watermark."""

    at_ms: int
    partition: int
    replica: int
    broker: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A replica outside of the ISR has reached its leader's log end."""

    at_ms: int
    partition: int
    replica: int
    broker: int


@dataclass(frozen=True, slots=True)
class LogDirMoveDone:
    """A replica has been copied to another directory of its broker, and lives there."""

    at_ms: int
    partition: int
    replica: int
    broker: int
    log_dir: int


Event = IsrShrink | IsrExpand | CaughtUp | LogDirMoveDone


class GrowingTable:
    """Columns that grow together. Each has shape (capacity,), of which some rows are in use."""

    DEFAULTS: ClassVar[dict[str, tuple[Any, Any]]]
    """dtype and value of an unused row, by column."""

    def __init__(self) -> None:
        self._used = 0
        self._free: list[int] = []
        for name, (dtype, value) in self.DEFAULTS.items():
            setattr(self, name, np.full(0, value, dtype))

    def __len__(self) -> int:
        """Rows that were ever in use."""
        return self._used

    def take(self, count: int) -> Rows:
        """Hand out rows, all at their defaults."""
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = count - len(reused)
        rows = np.array([*reused, *range(self._used, self._used + fresh)], np.int64)
        self._used += fresh
        self._reserve()
        return rows

    def release(self, rows: Rows) -> None:
        """Put rows back to their defaults."""
        for name, (_, value) in self.DEFAULTS.items():
            getattr(self, name)[rows] = value
        self._free += rows.tolist()

    def _reserve(self) -> None:
        """Columns are exactly as long as the rows in use, so that they can be used whole."""
        for name, (dtype, value) in self.DEFAULTS.items():
            column = getattr(self, name)
            grown = np.full(self._used, value, dtype)
            grown[: len(column)] = column
            setattr(self, name, grown)


class ReplicaTable(GrowingTable):
    """One row a replica."""

    partition: NDArray[np.int32]
    """Row of its partition; NOWHERE in a free row."""
    broker: NDArray[np.int32]
    log_dir: NDArray[np.int32]
    leo: NDArray[np.float64]
    """Log end offset; its whole part is what a broker reports."""
    position: NDArray[np.float64]
    """Bytes written to the partition, since it exists, up to this replica's end."""
    in_isr: NDArray[np.bool_]
    leader_listed: NDArray[np.bool_]
    """In leader.replication.throttled.replicas."""
    follower_listed: NDArray[np.bool_]
    """In follower.replication.throttled.replicas."""
    attached: NDArray[np.bool_]
    """A follower at its leader's end when the flows were last worked out."""
    proposed: NDArray[np.bool_]
    """An ISR change was reported that the caller has not answered."""
    caught_up_ms: NDArray[np.float64]
    """When it was at its leader's end before it fell behind."""
    rate: NDArray[np.float64]
    """How fast its log grows, bytes/s."""
    target_dir: NDArray[np.int32]
    """Where it is being moved on its broker, or NOWHERE."""
    moved: NDArray[np.float64]
    """Like `position`, of the copy in `target_dir`."""

    DEFAULTS: ClassVar[dict[str, tuple[Any, Any]]] = {
        "partition": (np.int32, NOWHERE),
        "broker": (np.int32, 0),
        "log_dir": (np.int32, NOWHERE),
        "leo": (np.float64, 0.0),
        "position": (np.float64, 0.0),
        "in_isr": (np.bool_, False),
        "leader_listed": (np.bool_, False),
        "follower_listed": (np.bool_, False),
        "attached": (np.bool_, False),
        "proposed": (np.bool_, False),
        "caught_up_ms": (np.float64, 0.0),
        "rate": (np.float64, 0.0),
        "target_dir": (np.int32, NOWHERE),
        "moved": (np.float64, 0.0),
    }


class PartitionRows(GrowingTable):
    """One row a partition."""

    leader: NDArray[np.int64]
    """Row of the replica that leads, or NOWHERE."""
    bytes_rate: NDArray[np.float64]
    """What the scenario writes, bytes/s."""
    records_rate: NDArray[np.float64]
    produced: NDArray[np.float64]
    """What the leader takes of it, bytes/s: less where its network or disk is full."""
    start_offset: NDArray[np.float64]
    start_position: NDArray[np.float64]
    """Bytes that were deleted from the front, since the partition exists."""

    DEFAULTS: ClassVar[dict[str, tuple[Any, Any]]] = {
        "leader": (np.int64, NOWHERE),
        "bytes_rate": (np.float64, 0.0),
        "records_rate": (np.float64, 0.0),
        "produced": (np.float64, 0.0),
        "start_offset": (np.float64, 0.0),
        "start_position": (np.float64, 0.0),
    }
