"""What every view needs of a snapshot, computed once for each, off the event loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING, ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import (
    UNKNOWN,
    Replicas,
    ReplicaStatus,
    Snapshot,
    moving_rows,
    partition_starts,
    stuck_rows,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.tui.facts.leaving_partitions import Leaving, leaving_of

_FOLLOWS_FROM: Final[Mapping[str, tuple[str, ...]]] = {
    "starts": ("topic_index", "partition"),
    "moving": ("topic_index", "partition", "adding", "removing"),
    "moving_partitions": ("topic_index", "partition", "adding", "removing"),
    "behind": ("status", "adding", "mode"),
    "active": ("topic_index", "partition", "adding", "removing", "status", "mode", "cause"),
    "being_deleted": ("mode",),
    "leaving": ("topic_index", "partition", "position", "mode"),
    "stuck": ("cause",),
    "counts": (
        *("topic_index", "partition", "position", "broker"),
        *("adding", "removing", "status", "leader", "mode"),
    ),
}
"""The columns that decide a fact. Where they are those of the last snapshot, so is the fact."""


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """What is counted over all rows, and rarely changes."""

    offline: int
    behind: int
    """Replicas out of the in-sync set that nothing moves."""
    leaderless: int
    misled: int
    """Partitions that are not led by their preferred replica."""


class Facts:
    """A snapshot and what follows from it; each part is computed when it is first asked for."""

    def __init__(self, snapshot: Snapshot, before: Facts | None = None) -> None:
        """What is known of the snapshot `before` is taken over as far as it still holds.

        Snapshots of one stream share the columns in which nothing changed.
        """
        self.snapshot = snapshot
        self.rows: Replicas = snapshot.replicas
        if before is not None and before.snapshot.topics is snapshot.topics:
            self._take_over(before)

    def _take_over(self, before: Facts) -> None:
        known = before.__dict__
        for fact, columns in _FOLLOWS_FROM.items():
            same = all(getattr(self.rows, c) is getattr(before.rows, c) for c in columns)
            if fact in known and same:
                self.__dict__[fact] = known[fact]
        for fact in ("topic_places", "longest_topic"):
            if fact in known:
                self.__dict__[fact] = known[fact]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """The first row of each partition."""
        return partition_starts(self.rows)

    @cached_property
    def row_counts(self) -> NDArray[np.intp]:
        """How many rows each partition has. Shape (partitions,)."""
        return np.diff(np.append(self.starts, len(self.rows)))

    @cached_property
    def leader_listed(self) -> NDArray[np.bool_]:
        """Whether each partition's leader is among the leader-throttled replicas.

        Shape (partitions,).
        """
        rows, found = self.rows, np.zeros(len(self.starts), np.bool_)
        listed = np.flatnonzero((rows.broker == rows.leader) & rows.leader_throttled)
        found[np.searchsorted(self.starts, listed, side="right") - 1] = True
        return found

    @cached_property
    def moving(self) -> NDArray[np.bool_]:
        """Rows of partitions that gain or lose a replica."""
        return moving_rows(self.rows, self.starts)

    @cached_property
    def stale(self) -> NDArray[np.bool_]:
        """Rows whose broker has not answered in time."""
        brokers = [id for id, status in self.snapshot.brokers.items() if status.stale]
        if not brokers:
            return np.zeros(len(self.rows), np.bool_)
        found: NDArray[np.bool_] = np.isin(self.rows.broker, brokers)
        return found

    @cached_property
    def arriving(self) -> NDArray[np.bool_]:
        """Replicas that are being added."""
        return self.rows.adding

    @cached_property
    def behind(self) -> NDArray[np.bool_]:
        """Replicas that still have to copy: added ones, and ones out of the in-sync set."""
        copying: NDArray[np.bool_] = self.rows.status != ReplicaStatus.IN_SYNC
        return (copying | self.rows.adding) & ~self.being_deleted

    @cached_property
    def being_deleted(self) -> NDArray[np.bool_]:
        """Rows of partitions that are being deleted: nobody leads them, and nothing is copied."""
        found: NDArray[np.bool_] = self.rows.mode == PartitionMode.NONE
        return found

    @cached_property
    def leaving(self) -> tuple[Leaving, ...]:
        """The partitions that are read-only or being deleted, by topic and mode."""
        return leaving_of(self.snapshot) if self.rows.mode.any() else ()

    @cached_property
    def stuck(self) -> NDArray[np.bool_]:
        """Replicas that cannot arrive before somebody does something."""
        return stuck_rows(self.rows)

    @cached_property
    def active(self) -> NDArray[np.bool_]:
        """Rows of partitions that move or ail: a replica is behind, offline or stuck."""
        if not len(self.rows):
            return self.stuck
        status = self.rows.status
        ails = (status == ReplicaStatus.BEHIND) | (status == ReplicaStatus.OFFLINE)
        whole = np.logical_or.reduceat((ails & ~self.being_deleted) | self.stuck, self.starts)
        found: NDArray[np.bool_] = self.moving | np.repeat(whole, self.row_counts)
        return found

    @cached_property
    def topic_places(self) -> dict[str, int]:
        """Where each topic's name is."""
        return {name: place for place, name in enumerate(self.snapshot.topics)}

    @cached_property
    def leader_sizes(self) -> NDArray[np.int64]:
        """The size of each partition on its leader; UNKNOWN where nobody has said."""
        rows, sizes = self.rows, np.full(len(self.starts), UNKNOWN, np.int64)
        leads = np.flatnonzero(rows.broker == rows.leader)
        sizes[np.searchsorted(self.starts, leads, side="right") - 1] = rows.size_bytes[leads]
        return sizes

    @cached_property
    def longest_topic(self) -> int:
        """Cells of the longest name of a topic."""
        return max(map(cell_len, self.snapshot.topics), default=0)

    @cached_property
    def counts(self) -> ReplicaCounts:
        """What is counted over all rows."""
        rows, stays = self.rows, ~self.being_deleted
        return ReplicaCounts(
            offline=int(((rows.status == ReplicaStatus.OFFLINE) & stays).sum()),
            behind=int(((rows.status == ReplicaStatus.BEHIND) & ~self.moving).sum()),
            leaderless=int(((rows.leader < 0) & stays)[self.starts].sum()),
            misled=int(((rows.position == 0) & (rows.leader != rows.broker) & stays).sum()),
        )

    @cached_property
    def summary(self) -> Summary:
        """The whole cluster in one line."""
        return _summary(self)

    @cached_property
    def moving_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that gain or lose a replica."""
        return tuple(
            self.snapshot.partition_of(int(row)) for row in self.starts[self.moving[self.starts]]
        )

    def rows_of(self, topic: str, partition: int) -> range:
        """A partition's rows; empty where there is no such partition."""
        place = self.topic_places.get(topic)
        if place is None:
            return range(0)
        first, last = np.searchsorted(self.rows.topic_index, [place, place + 1])
        within = self.rows.partition[first:last]
        start, end = np.searchsorted(within, [partition, partition + 1])
        return range(int(first + start), int(first + end))

    def partitions_in(self, topic: str) -> int:
        """How many partitions a topic has; 0 where there is no such topic."""
        place = self.topic_places.get(topic)
        if place is None:
            return 0
        first, last = np.searchsorted(self.rows.topic_index, [place, place + 1])
        return len(np.unique(self.rows.partition[first:last]))

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        """A partition's brokers in the order of its replica list."""
        rows = self.rows_of(*partition)
        return tuple(int(broker) for broker in self.rows.broker[rows.start : rows.stop])

    def broker_age_s(self, broker: int) -> float:
        """How old a broker's rows were when the snapshot was taken; NaN if it never answered."""
        status = self.snapshot.brokers.get(broker)
        if status is None or status.answered_ms is None:
            return math.nan
        return max(self.snapshot.taken_ms - status.answered_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class Summary:
    """What the head of the screen says."""

    moving_partitions: int = 0
    moving_replicas: int = 0
    remaining_bytes: int = UNKNOWN
    """Bytes that moving replicas still lack, as far as is known."""
    remaining_unknown: int = 0
    """Moving replicas that have not said how much they lack."""
    rate_bytes_per_s: float = math.nan
    """What the moving replicas fetch together."""
    end: ExpectedEnd | None = None
    """When all of it will be done; None where the backend does not say."""
    offline_replicas: int = 0
    behind_replicas: int = 0
    """Replicas out of the in-sync set that nothing moves."""
    leaderless_partitions: int = 0
    misled_partitions: int = 0
    """Partitions that are not led by their preferred replica."""
    stuck: Mapping[Cause, int] = field(default_factory=dict)
    """How many replicas each cause keeps from arriving."""
    failed_requests: tuple[FailedRequest, ...] = ()
    """What could not be read."""
    leaving: tuple[Leaving, ...] = ()
    """Partitions that are read-only or being deleted."""

    @property
    def never(self) -> int:
        """Replicas that do not arrive before something changes."""
        return 0 if self.end is None else self.end.never

    @property
    def stuck_replicas(self) -> int:
        """How many replicas are stuck."""
        return sum(self.stuck.values())


def known_sum(values: NDArray[np.int64]) -> tuple[int, int]:
    """The sum of the known values, UNKNOWN if none is; and how many are unknown."""
    known = values[values >= 0]
    missing = len(values) - len(known)
    return (UNKNOWN if missing and not len(known) else int(known.sum())), missing


def rate_sum(values: NDArray[np.float32]) -> float:
    """The sum of the known rates; NaN if there are rows and none is known."""
    known = values[~np.isnan(values)]
    return math.nan if len(values) and not len(known) else float(known.sum(dtype=np.float64))


def _summary(facts: Facts) -> Summary:
    rows, arriving = facts.rows, facts.arriving
    remaining, remaining_unknown = known_sum(rows.lag_bytes[arriving])
    return Summary(
        moving_partitions=int(facts.moving[facts.starts].sum()),
        moving_replicas=int(arriving.sum()),
        remaining_bytes=remaining,
        remaining_unknown=remaining_unknown,
        rate_bytes_per_s=rate_sum(rows.fetched_bytes_per_s[arriving]),
        end=facts.snapshot.expected_ends.get(EVERYTHING),
        offline_replicas=facts.counts.offline,
        behind_replicas=facts.counts.behind,
        leaderless_partitions=facts.counts.leaderless,
        misled_partitions=facts.counts.misled,
        stuck=_stuck(facts),
        failed_requests=facts.snapshot.failed_requests,
        leaving=facts.leaving,
    )


def _stuck(facts: Facts) -> dict[Cause, int]:
    counts = np.bincount(facts.rows.cause[facts.stuck])
    return {Cause(value): int(counts[value]) for value in np.flatnonzero(counts).tolist()}
