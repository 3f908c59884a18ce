"""What the engine decides on: the part of a cluster that an operation has to do with.

Everything here is a value read at one moment. Whatever was not read is absent, and absent is
never taken for zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.assignment import (
    ASSIGNMENT_COLUMNS,
    Assignment,
    ClusterState,
    partition_states,
)
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    LogDir,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
    original_replicas,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import Move, Throttles

NO_THROTTLES = Throttles({}, {})


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at one moment, as far as a decision needs it."""

    cluster_id: str
    live: frozenset[int]
    """Brokers that are registered and not fenced."""
    partitions: Mapping[TopicPartition, PartitionState]
    """Every partition of the topics that were asked for, and those in `ongoing` where known."""
    ongoing: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    """Every partition of the cluster that moves, no matter who started the move."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas by topic; a topic whose configuration was not read is absent."""
    size_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """What the leader's log holds; absent where it is not known."""
    under_min_isr: frozenset[TopicPartition] = frozenset()
    """Every partition of the whole cluster whose ISR is smaller than min.insync.replicas."""
    throttles: Throttles = NO_THROTTLES
    log_dirs: tuple[LogDir, ...] = ()
    """Log directories of the brokers, by the newest sample; empty before the first."""

    def move_to(self, partition: TopicPartition, target: tuple[int, ...]) -> Move:
        """The move of a partition from where it is, without what an unfinished move added."""
        state = self.partitions[partition]
        return Move(partition, original_replicas(state, self.ongoing.get(partition)), target)

    def leader_of(self, partition: TopicPartition) -> int:
        """The partition's leader, or `NO_BROKER` where there is none or it is not known."""
        state = self.partitions.get(partition)
        return NO_BROKER if state is None else state.leader

    def copy_bytes(self, move: Move) -> int | None:
        """What a move copies, or None where the partition's size is not known."""
        copies = len(move.adding)
        if copies == 0:
            return 0
        size_bytes = self.size_bytes.get(move.partition)
        return None if size_bytes is None else size_bytes * copies


def view_of(
    state: ClusterState,
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    *,
    min_isr: Mapping[str, int],
    topics: Iterable[str] | None = None,
    size_bytes: Mapping[TopicPartition, int] | None = None,
    throttles: Throttles = NO_THROTTLES,
    log_dirs: tuple[LogDir, ...] = (),
) -> ClusterView:
    """A view of a whole described cluster, with values for the partitions of `topics` only.

    `state` must describe every topic, so that partitions under min.insync.replicas are seen
    wherever they are. `topics` None: all of them, which costs about 10 microseconds a replica.
    """
    wanted = None if topics is None else {*topics, *(p.topic for p in ongoing)}
    return ClusterView(
        cluster_id=state.cluster_id,
        live=frozenset(state.brokers),
        partitions=partition_states(only_topics(state.assignment, wanted)),
        ongoing=ongoing,
        min_isr=min_isr,
        size_bytes=size_bytes or {},
        under_min_isr=under_min_isr(state.assignment, min_isr),
        throttles=throttles,
        log_dirs=log_dirs,
    )


def only_topics(assignment: Assignment, topics: Collection[str] | None) -> Assignment:
    """The rows of some topics; the topic index stays as it is."""
    if topics is None:
        return assignment
    rows = np.isin(assignment.topic_index, _indexes(assignment.topics, topics))
    columns = {name: getattr(assignment, name)[rows] for name in ASSIGNMENT_COLUMNS}
    return Assignment(assignment.topics, **columns)


def _indexes(names: tuple[str, ...], wanted: Collection[str]) -> list[int]:
    return [index for index, name in enumerate(names) if name in wanted]


def effective_min_isr(min_isr: int, replicas: int) -> int:
    """How many replicas must be in sync for acks=all (Kafka's `Partition.effectiveMinIsr`).

    min.insync.replicas, but no more than the partition has replicas; those that an unfinished
    move is adding count as replicas.
    """
    return min(min_isr, replicas)


def under_min_isr(assignment: Assignment, min_isr: Mapping[str, int]) -> frozenset[TopicPartition]:
    """Partitions with fewer replicas in sync than acks=all needs, in columns.

    What Kafka's UnderMinIsrPartitionCount counts. Of a topic that is not in `min_isr` nothing is
    said, nor of a partition that takes no records at all (KIP-694).
    """
    if not len(assignment):
        return frozenset()
    first = np.ones(len(assignment), np.bool_)
    first[1:] = (np.diff(assignment.topic_index) != 0) | (np.diff(assignment.partition) != 0)
    starts: NDArray[np.intp] = np.flatnonzero(first)
    in_sync = np.add.reduceat(assignment.in_isr.astype(np.int64), starts)
    counts = np.diff(np.append(starts, len(assignment)))
    of_topic = np.array([min_isr.get(topic, 0) for topic in assignment.topics], np.int64)
    needed = np.minimum(of_topic[assignment.topic_index[starts]], counts)
    writable = assignment.mode[starts] == PartitionMode.READ_WRITE
    low = starts[(in_sync < needed) & writable]
    return frozenset(
        TopicPartition(
            assignment.topics[int(assignment.topic_index[row])], int(assignment.partition[row])
        )
        for row in low
    )


def leader_sizes(snapshot: Snapshot, topics: Collection[str]) -> dict[TopicPartition, int]:
    """The size of each partition's log on its leader, by the newest sample; known ones only."""
    replicas = snapshot.replicas
    rows = (replicas.broker == replicas.leader) & (replicas.size_bytes >= 0)
    rows &= np.isin(replicas.topic_index, _indexes(snapshot.topics, topics))
    return {
        snapshot.partition_of(int(row)): int(replicas.size_bytes[row])
        for row in np.flatnonzero(rows)
    }
