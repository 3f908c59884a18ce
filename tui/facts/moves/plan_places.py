"""The partitions of a plan as arrays, and where each of them stands in a snapshot.

The arrays of a plan are made once. To find them, the code reads the rows of a snapshot a few times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.facts.snapshot_facts import Facts

PLANS_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class PlanArrays:
    """Partitions as arrays, and replicas of each: where it was before, or where it is to be."""

    topics: tuple[str, ...]
    topic: NDArray[np.int64]
    """Places in `topics`."""
    partition: NDArray[np.int64]
    entry: NDArray[np.int64]
    """Places in `partition`, one for each replica."""
    broker: NDArray[np.int64]


def plan_arrays(
    partitions: Sequence[TopicPartition], replicas_of: Mapping[TopicPartition, tuple[int, ...]]
) -> PlanArrays:
    """Partitions with the replicas of those of which they are known."""
    topics = tuple(sorted({partition.topic for partition in partitions}))
    places = {topic: place for place, topic in enumerate(topics)}
    replicas = [
        (entry, broker)
        for entry, partition in enumerate(partitions)
        for broker in replicas_of.get(partition, ())
    ]
    return PlanArrays(
        topics,
        np.array([places[p.topic] for p in partitions], np.int64),
        np.array([p.partition for p in partitions], np.int64),
        np.array([entry for entry, _ in replicas], np.int64),
        np.array([broker for _, broker in replicas], np.int64),
    )


def places_of(facts: Facts, plan: PlanArrays) -> NDArray[np.int64]:
    """Where each partition of the plan stands among the snapshot's; -1 where it is not."""
    rows, starts = facts.rows, facts.starts
    keys = partition_keys(rows.topic_index[starts], rows.partition[starts])
    numbers = np.array([facts.topic_places.get(topic, -1) for topic in plan.topics], np.int64)
    if not len(keys) or not len(plan.partition):
        return np.full(len(plan.partition), -1, np.int64)
    topic = numbers[plan.topic]
    wanted = partition_keys(topic, plan.partition)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((topic >= 0) & (keys[found] == wanted), found, -1)


def rows_among(facts: Facts, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows of some of the snapshot's partitions."""
    return np.repeat(members, facts.row_counts)


def members_of(facts: Facts, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the snapshot's partitions have one of these places."""
    members = np.zeros(len(facts.starts), np.bool_)
    members[places[places >= 0]] = True
    return members
