"""What is on each log directory, what still comes, and how full it will be at most.

While a move runs, what it copies comes on top of what is there: Kafka deletes a replica that goes
only once its partition's copies are in sync. So the peak of a directory is what is used at present
and what is still to arrive, as if nothing were deleted before: it can only be less. What waits for
its turn in a running operation is still to arrive, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.tui.facts.brokers.pending_transfers import PendingTransfers, pending_transfers_of
from kshunt.tui.facts.snapshot_facts import Facts

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

DISK_WARNS: Final = 0.85
DISK_BAD: Final = 0.95
PEAK_WARNS: Final = 0.90
PEAK_BAD: Final = 1.0


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory, or all of a broker's together."""

    broker: int
    path: str
    """Empty for all of a broker's together."""
    used_bytes: int = UNKNOWN
    total_bytes: int = UNKNOWN
    arriving_bytes: int = 0
    """What replicas on it still lack, and what waits for its turn, as far as is known."""
    arriving_unknown: int = 0
    """Replicas on their way to it that do not say how much they lack."""
    queued_bytes: int = 0
    """Of `arriving_bytes`, what waits for its turn in a running operation."""
    waiting: int = 0
    """Partitions that wait and of which nobody says where they go: some may come here."""
    error: str = ""
    """Kafka's error name where it is offline."""

    @property
    def share(self) -> float | None:
        """How full it is, or None where it is not known."""
        return self.used_bytes / self.total_bytes if self.total_bytes > 0 else None

    @property
    def peak_bytes(self) -> int:
        """The most it will hold while the move runs, at least as far as is known."""
        return UNKNOWN if self.used_bytes < 0 else self.used_bytes + self.arriving_bytes

    @property
    def peak_share(self) -> float | None:
        """How full it will be at most, or None where it is not known."""
        return self.peak_bytes / self.total_bytes if self.total_bytes > 0 else None

    @property
    def receives(self) -> bool:
        """True where something comes to it, or may come."""
        return bool(self.arriving_bytes) or self.at_least

    @property
    def at_least(self) -> bool:
        """True where more may come than is known."""
        return bool(self.arriving_unknown or self.waiting)


def disks_of(facts: Facts, broker: int, operations: Iterable[Operation] = ()) -> list[Disk]:
    """A broker's directories in the order of their paths, with what comes to each.

    The directory of a replica may not be known yet, for example while the replica waits for its
    turn. Such a replica counts for the only directory there is. Where there are several, it may
    come to each of them, and counts for none. It does count for the broker as a whole, see
    `whole_disk`.
    """
    disks = sizes_of(facts, broker)
    queued = pending_transfers_of(facts, operations)
    return [_with_arrivals(facts, disk, queued, only=len(disks) == 1) for disk in disks]


def sizes_of(facts: Facts, broker: int) -> list[Disk]:
    """A broker's directories without what comes to them."""
    found = sorted(
        (one for one in facts.snapshot.log_dirs if one.broker == broker), key=lambda one: one.path
    )
    return [_disk(one) for one in found]


def _disk(directory: LogDir) -> Disk:
    total, free = directory.total_bytes, directory.usable_bytes
    known = total >= 0 and free >= 0 and not directory.error
    return Disk(
        directory.broker,
        directory.path,
        total - free if known else UNKNOWN,
        total if known else UNKNOWN,
        error=directory.error or "",
    )


def _with_arrivals(facts: Facts, disk: Disk, queued: PendingTransfers, *, only: bool) -> Disk:
    rows, paths = facts.rows, facts.snapshot.log_dir_paths
    coming = facts.behind & (rows.broker == disk.broker) & (rows.leader != disk.broker)
    if not only:
        coming &= rows.log_dir == (paths.index(disk.path) if disk.path in paths else -2)
    lag = rows.lag_bytes[np.flatnonzero(coming)]
    known = lag[lag >= 0]
    waits = queued.size_bytes.get(disk.broker, 0)
    unknown = queued.unknown.get(disk.broker, 0)
    may_come = 0 if only else queued.replicas.get(disk.broker, 0)
    return replace(
        disk,
        arriving_bytes=int(known.sum()) + (waits if only else 0),
        arriving_unknown=len(lag) - len(known) + (unknown if only else 0),
        queued_bytes=waits if only else 0,
        waiting=queued.untold + may_come,
    )


def whole_disk(
    disks: Sequence[Disk], broker: int, arriving_bytes: int, unknown: int, queued: PendingTransfers
) -> Disk:
    """A broker's directories together, with what its replicas lack and what waits.

    Used and total are UNKNOWN unless each one says.
    """
    waits = queued.size_bytes.get(broker, 0)
    live = [disk for disk in disks if not disk.error]
    says = bool(live) and all(disk.total_bytes > 0 for disk in live)
    return Disk(
        broker,
        "",
        sum(disk.used_bytes for disk in live) if says else UNKNOWN,
        sum(disk.total_bytes for disk in live) if says else UNKNOWN,
        arriving_bytes + waits,
        unknown + queued.unknown.get(broker, 0),
        waits,
        queued.untold,
    )


def disk_tone(share: float) -> str:
    """The tone for how full a disk is at present: 85 % warns, 95 % is bad."""
    return "bad" if share >= DISK_BAD else "warn" if share >= DISK_WARNS else ""


def peak_tone(share: float | None) -> str:
    """The tone for how full a disk will be at most: more than 90 % warns, 100 % is bad."""
    if share is None:
        return "dim"
    return "bad" if share >= PEAK_BAD else "warn" if share > PEAK_WARNS else ""
