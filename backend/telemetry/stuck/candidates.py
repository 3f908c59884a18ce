"""The part of a snapshot that can have to do with a replica that is stuck.

A cluster at rest has hundreds of thousands of replicas, and nothing to say of them. `AdvanceWatch`
and `diagnose` are linear in the rows that they are given. So they get whole partitions, and only
those where something moves or will, is out of the ISR, is being deleted, or is listed as throttled.
An in-sync follower that is listed uses a throttle up as well. What is left out can neither be stuck
nor be the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import Replicas, Snapshot, take
from kshunt.backend.domain.replicas.stuck_causes import Replica


def concerned_rows(
    snapshot: Snapshot,
    dir_moves: Collection[Replica],
    waiting: Collection[TopicPartition] = (),
) -> NDArray[np.intp]:
    """Rows of the partitions that may matter, in their order; `waiting` will move."""
    replicas = snapshot.replicas
    mask = ~replicas.in_isr | (replicas.mode == PartitionMode.NONE)
    for column in (
        replicas.adding,
        replicas.removing,
        replicas.leader_throttled,
        replicas.follower_throttled,
    ):
        mask |= column
    rows = np.flatnonzero(mask)
    keys = _partition_keys(replicas, rows)
    if dir_moves or waiting:
        named = (*(partition for partition, _ in dir_moves), *waiting)
        keys = np.concatenate([keys, _keys_of(snapshot, named)])
    return _rows_with(replicas, np.unique(keys))


def focused(snapshot: Snapshot, rows: NDArray[np.intp]) -> Snapshot:
    """The snapshot with these rows alone."""
    return replace(snapshot, replicas=take(snapshot.replicas, rows))


def _partition_keys(replicas: Replicas, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    return partition_keys(replicas.topic_index[rows], replicas.partition[rows])


def _keys_of(snapshot: Snapshot, partitions: Iterable[TopicPartition]) -> NDArray[np.int64]:
    numbers = {topic: number for number, topic in enumerate(snapshot.topics)}
    known = [partition for partition in partitions if partition.topic in numbers]
    topics = np.array([numbers[partition.topic] for partition in known], np.int64)
    return partition_keys(topics, np.array([one.partition for one in known], np.int64))


def _rows_with(replicas: Replicas, keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Every row of these partitions. Rows are sorted by partition, and so are the keys."""
    if not len(keys):
        return np.empty(0, np.intp)
    every = _partition_keys(replicas, np.arange(len(replicas)))
    first, end = (np.searchsorted(every, keys, side) for side in ("left", "right"))
    counts = end - first
    # One run of rows a partition: each row's place in its run, and where the run begins.
    places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    found: NDArray[np.intp] = np.repeat(first, counts) + places
    return found
