"""Large questions and answers about replicas, in columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition


def partition_keys(topic_index: NDArray[Any], partition: NDArray[Any]) -> NDArray[np.int64]:
    """One sortable int64 a partition, from two arrays of one shape."""
    keys: NDArray[np.int64] = (topic_index.astype(np.int64) << 32) | partition
    return keys


@dataclass(frozen=True, eq=False)
class PartitionColumns:
    """A set of partitions in columns. Arrays have shape (partitions,)."""

    topics: tuple[str, ...]
    topic_index: NDArray[np.int32]
    """Index into `topics`. Rows are sorted by it, and those of one topic by partition."""
    partition: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.partition)


def columns_of(partitions: Iterable[TopicPartition]) -> PartitionColumns:
    """Partitions as columns, sorted, each once."""
    wanted = sorted(set(partitions))
    topics = tuple(dict.fromkeys(topic for topic, _ in wanted))
    index = {topic: place for place, topic in enumerate(topics)}
    return PartitionColumns(
        topics,
        np.array([index[topic] for topic, _ in wanted], np.int32),
        np.array([partition for _, partition in wanted], np.int32),
    )


@dataclass(frozen=True, eq=False)
class OffsetColumns:
    """A broker's log end offsets, aligned row by row with the `PartitionColumns` asked for."""

    log_end_offset: NDArray[np.int64]
    """-1 where the broker has no such replica or refused."""
    error_code: NDArray[np.int16]
    """Kafka's error code of the row: 3 and 6 mean that the broker has no such replica (yet)."""


@dataclass(frozen=True, eq=False)
class LogDirColumns:
    """A broker's replicas on disk. Arrays have shape (rows,); the order is the broker's."""

    dirs: tuple[LogDir, ...]
    topics: tuple[str, ...]
    topic_index: NDArray[np.int32]
    """Index into `topics`."""
    partition: NDArray[np.int32]
    dir_index: NDArray[np.int16]
    """Index into `dirs`."""
    size_bytes: NDArray[np.int64]
    is_future: NDArray[np.bool_]
    """True for the copy that a move between directories of one broker is building."""
