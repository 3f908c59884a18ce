"""Whether the copy of a topic fits on the brokers' disks.

Goals
    No broker's disk is filled by a shrink.
Constraints
    - Where the partitions of the target come to lie is decided later, by a placer.
    - A broker says how much is free in each log directory; directories may share a volume, and
      then both say the same. A partition is never split over two directories.
    - The target's partitions have about one size; how even, only its keys decide.
Algorithm
    A broker's room is the number of partitions of the mean size that fit, directory by directory,
    above a reserve that stays free. N partitions with R replicas on different brokers fit if and
    only if the brokers' rooms, none counted for more than N, come to N x R.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.cluster.metadata import LogDir

RESERVE: Final = 0.1
"""Share of a volume that stays free."""
HEADER_BYTES: Final = 48
"""What the header of a copied record, which says where it is from, adds to it at most."""


@dataclass(frozen=True, slots=True)
class CopySpace:
    """How a copy fits."""

    partition_bytes: int
    """Of each of the target's partitions, on each of its replicas."""
    fits: bool
    tight: tuple[int, ...]
    """Brokers without room for an even share: the placer must give them less."""
    unknown: tuple[int, ...]
    """Brokers that do not say how much is free (before Kafka 3.3); they count as having room."""
    free_bytes: Mapping[int, int]
    """Free above the reserve, by broker that says so."""


def copy_bytes(total_bytes: int, records: int | None) -> int:
    """The size of one copy of a topic."""
    return total_bytes + HEADER_BYTES * (records or 0)


def room_for(
    dirs: Iterable[LogDir],
    brokers: Iterable[int],
    *,
    size_bytes: int,
    partitions: int,
    replication_factor: int,
) -> CopySpace:
    """How a topic of this size fits on the brokers.

    Args:
        dirs: The log directories of the brokers.
        brokers: Those that are up.
        size_bytes: The sum over its partitions. Each counts with a single replica.
        partitions: How many it will have; at least 1.
        replication_factor: How many replicas each.
    """
    each = -(-size_bytes // partitions)
    volumes = _volumes(dirs)
    live = sorted(set(brokers))
    unknown = tuple(broker for broker in live if broker not in volumes)
    takes = {
        broker: partitions if broker in unknown else _takes(volumes[broker], each, partitions)
        for broker in live
    }
    share = -(-partitions * replication_factor // max(len(live), 1))
    return CopySpace(
        partition_bytes=each,
        fits=sum(takes.values()) >= partitions * replication_factor,
        tight=tuple(broker for broker in live if takes[broker] < min(share, partitions)),
        unknown=unknown,
        free_bytes={broker: sum(volumes[broker]) for broker in live if broker in volumes},
    )


def _volumes(dirs: Iterable[LogDir]) -> dict[int, list[int]]:
    """Free bytes above the reserve of each volume, by broker; absent where one does not say."""
    found: dict[int, set[tuple[int, int]]] = {}
    silent = set()
    for one in dirs:
        if one.error is not None:
            continue
        if one.usable_bytes < 0 or one.total_bytes < 0:
            silent.add(one.broker)
        # Two directories that say the same to the byte are on one volume.
        found.setdefault(one.broker, set()).add((one.total_bytes, one.usable_bytes))
    return {
        broker: [max(0, usable - int(RESERVE * total)) for total, usable in sorted(volumes)]
        for broker, volumes in found.items()
        if broker not in silent
    }


def _takes(volumes: Iterable[int], partition_bytes: int, most: int) -> int:
    """How many partitions have room, `most` at most."""
    if partition_bytes <= 0:
        return most
    return min(most, sum(free // partition_bytes for free in volumes))
