"""What a rehearsal knows of a cluster: what lies where, what throttles it, what brokers can do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.replicas.snapshot import Snapshot, partition_starts
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.placement.plans.situation import Situation
from kshunt.backend.placement.plans.snapshot_situation import situation_of


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a broker's machine can do, as observed or as somebody said; None is without limit."""

    network_in_bytes_per_s: float | None = None
    network_out_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    """Of each log directory, reads and writes together."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at one moment."""

    situation: Situation
    throttles: Throttles = field(default_factory=lambda: Throttles({}, {}))
    capacities: Mapping[int, Capacity] = field(default_factory=dict)
    """By broker; one that is absent has no limit."""
    lag_bytes: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    """By partition and broker: what replicas lack that are not in the ISR, where it is known."""
    cluster_id: str = ""
    taken_ms: int = 0
    """Milliseconds since the epoch."""


def picture_of(snapshot: Snapshot, *, capacities: Mapping[int, Capacity] | None = None) -> Picture:
    """A picture of what a backend has sampled.

    What producers write to a partition is by how much the logs of its in-sync replicas grow; it is
    not known where they were not sampled twice.

    Args:
        snapshot: The cluster as it was sampled.
        capacities: What brokers can do, by id.
    """
    return Picture(
        situation_of(snapshot, dict(_written(snapshot))),
        snapshot.throttles,
        dict(capacities or {}),
        dict(_lags(snapshot)),
        snapshot.cluster_id,
        snapshot.taken_ms,
    )


def _written(snapshot: Snapshot) -> Iterator[tuple[TopicPartition, tuple[float, float]]]:
    """Bytes a second that are written to partitions; what is read of them is not sampled."""
    table = snapshot.replicas
    if not len(table):
        return
    starts = partition_starts(table)
    tells = table.in_isr & ~np.isnan(table.fetched_bytes_per_s)
    # A log that retention cuts grows by less than what is written: the fastest one tells most.
    grown = np.where(tells, np.maximum(table.fetched_bytes_per_s, 0.0), -1.0)
    for start, rate in zip(
        starts.tolist(), np.maximum.reduceat(grown, starts).tolist(), strict=True
    ):
        if rate >= 0:
            yield snapshot.partition_of(start), (rate, math.nan)


def _lags(snapshot: Snapshot) -> Iterator[tuple[tuple[TopicPartition, int], int]]:
    table = snapshot.replicas
    behind = ~table.in_isr & (table.lag_bytes > 0) & (table.leader != NO_BROKER)
    for row in np.flatnonzero(behind).tolist():
        yield (snapshot.partition_of(row), int(table.broker[row])), int(table.lag_bytes[row])
