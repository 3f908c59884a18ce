"""A cluster's brokers and partitions as it reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_BROKER = -1
"""Kafka's id for "no broker", for example of a partition without a leader."""


class TopicPartition(NamedTuple):
    """A partition's name, written `topic-partition` as Kafka does."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that the cluster lists as registered and not fenced."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class LogDir:
    """A broker's log directory."""

    broker: int
    path: str
    total_bytes: int = -1
    """Size of the volume, or -1 where the broker does not say (before Kafka 3.3)."""
    usable_bytes: int = -1
    """Free bytes on the volume, or -1 where the broker does not say."""
    error: str | None = None
    """Kafka's error name when the directory is offline."""


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition that moves (KIP-455)."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    """The target, followed by the replicas that are being removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that remain when the move is done."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas from before the move, to which a cancellation returns."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition, for small answers; large ones stay in columns (`Assignment`)."""

    partition: TopicPartition
    leader: int
    """Broker id, or `NO_BROKER`."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


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
