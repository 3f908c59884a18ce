"""Who hosts what, for a whole cluster, in columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import Broker, PartitionState, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode

ASSIGNMENT_COLUMNS: Final = (
    "topic_index",
    "partition",
    "broker",
    "position",
    "leader",
    "in_isr",
    "offline",
    "mode",
    "deletes_ms",
)
"""Names of the arrays of an `Assignment`."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who hosts what, in columns: one row a replica, sorted by (topic, partition, position).

    Every array has shape (replicas,).
    """

    topics: tuple[str, ...]
    """Topic names, sorted; `topic_index` points into them."""
    topic_index: NDArray[np.int32]
    partition: NDArray[np.int32]
    broker: NDArray[np.int32]
    position: NDArray[np.int16]
    """Place in the replica list; 0 is the preferred leader."""
    leader: NDArray[np.int32]
    """The partition's leader, repeated on each of its replicas; `NO_BROKER` if none."""
    in_isr: NDArray[np.bool_]
    offline: NDArray[np.bool_]
    mode: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    """The partition's `PartitionMode`; not given, every partition is ReadWrite."""
    deletes_ms: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """When a partition's data goes, in milliseconds since the epoch; -1 where that is not known."""

    def __post_init__(self) -> None:
        if not len(self.mode):
            object.__setattr__(self, "mode", np.zeros(len(self), np.int8))
        if not len(self.deletes_ms):
            unknown = np.broadcast_to(np.int64(UNKNOWN_MS), len(self))
            object.__setattr__(self, "deletes_ms", unknown)

    def __len__(self) -> int:
        return len(self.broker)


@dataclass(frozen=True, eq=False)
class ClusterState:
    """One answer to "who are you and who hosts what"."""

    cluster_id: str
    controller: int
    """Broker id that the cluster names as controller, or `NO_BROKER`."""
    brokers: Mapping[int, Broker]
    assignment: Assignment
    topic_errors: Mapping[str, str] = field(default_factory=dict)
    """Kafka's error name by topic, for topics that were asked for and not described."""


def merge(whole: Assignment, part: Assignment, asked: frozenset[str]) -> Assignment:
    """`whole`, with the topics that were `asked` for replaced by what `part` says of them.

    A topic that was asked for and is not in `part` is gone. Topics stay sorted.
    """
    topics = tuple(sorted((set(whole.topics) - asked) | set(part.topics)))
    number = {topic: index for index, topic in enumerate(topics)}
    stays = ~np.isin(
        whole.topic_index,
        [index for index, topic in enumerate(whole.topics) if topic in asked],
    )
    pieces = [
        _renumbered(whole, stays, number),
        _renumbered(part, np.ones(len(part), np.bool_), number),
    ]
    columns = {
        name: np.concatenate([piece[name] for piece in pieces]) for name in ASSIGNMENT_COLUMNS
    }
    order = np.lexsort((columns["position"], columns["partition"], columns["topic_index"]))
    return Assignment(topics, **{name: column[order] for name, column in columns.items()})


def part_of(assignment: Assignment, partitions: Collection[TopicPartition]) -> Assignment:
    """The assignment of these partitions alone."""
    wanted = set(partitions)
    index = {topic: place for place, topic in enumerate(assignment.topics)}
    known = [(index[topic], partition) for topic, partition in wanted if topic in index]
    pairs = np.array(known, np.int64).reshape(-1, 2)
    rows = np.isin(
        partition_keys(assignment.topic_index, assignment.partition),
        partition_keys(pairs[:, 0], pairs[:, 1]),
    )
    columns = {name: getattr(assignment, name)[rows] for name in ASSIGNMENT_COLUMNS}
    return Assignment(assignment.topics, **columns)


def with_returned(assignment: Assignment, brokers: Collection[int]) -> Assignment:
    """An assignment from before these brokers came back: that they were away is over."""
    back = np.isin(assignment.broker, list(brokers))
    return replace(assignment, offline=assignment.offline & ~back) if back.any() else assignment


def _renumbered(
    assignment: Assignment, rows: NDArray[np.bool_], number: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    renumber = np.array([number.get(topic, -1) for topic in assignment.topics], np.int32)
    columns = {name: getattr(assignment, name)[rows] for name in ASSIGNMENT_COLUMNS}
    if len(renumber):
        columns["topic_index"] = renumber[columns["topic_index"]]
    return columns


def partition_states(assignment: Assignment) -> dict[TopicPartition, PartitionState]:
    """The assignment as values, one a partition; for the few partitions of a plan."""
    rows: dict[tuple[int, int], list[int]] = {}
    # Lists: an array gives one element at a time ten times slower.
    named = zip(assignment.topic_index.tolist(), assignment.partition.tolist(), strict=True)
    for row, key in enumerate(named):
        rows.setdefault(key, []).append(row)
    broker, leader = assignment.broker.tolist(), assignment.leader.tolist()
    in_isr, offline = assignment.in_isr.tolist(), assignment.offline.tolist()
    mode, deletes_ms = assignment.mode.tolist(), assignment.deletes_ms.tolist()
    found = {}
    for (topic, number), where in rows.items():
        partition = TopicPartition(assignment.topics[topic], number)
        found[partition] = PartitionState(
            partition=partition,
            leader=leader[where[0]],
            replicas=tuple(broker[row] for row in where),
            isr=tuple(broker[row] for row in where if in_isr[row]),
            offline=tuple(broker[row] for row in where if offline[row]),
            mode=PartitionMode.of(mode[where[0]]),
            deletes_ms=deletes_ms[where[0]],
        )
    return found
