"""A cluster's brokers and partitions as it reports them; plain values, no arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode

NO_BROKER = -1
"""Kafka's id for "no broker", for example of a partition without a leader."""


class TopicPartition(Struct, frozen=True, order=True, gc=False):
    """A partition's name, written `topic-partition` as Kafka does; unpacks as both.

    A `Struct` and no dataclass: plans have 200,000 of them, in sets and as keys.
    """

    topic: str
    partition: int

    def __iter__(self) -> Iterator[Any]:
        yield self.topic
        yield self.partition

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
    """Free bytes on the volume, or -1 where the broker does not say. Of a directory that is
    offline: when it last answered."""
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
    mode: PartitionMode = PartitionMode.READ_WRITE
    deletes_ms: int = UNKNOWN_MS
    """When its data goes, in milliseconds since the epoch, where it is to go."""

    @property
    def stays(self) -> bool:
        """False for one that is read-only or being deleted (KIP-694)."""
        return self.mode is PartitionMode.READ_WRITE


def original_replicas(state: PartitionState, move: OngoingReassignment | None) -> tuple[int, ...]:
    """Where a partition is, leaving out what an unfinished move of it has added."""
    return state.replicas if move is None else move.original


def is_being_deleted(state: PartitionState) -> bool:
    """True for a partition whose data is being deleted: it has no leader, and gets none."""
    return state.mode is PartitionMode.NONE


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster that a backend serves, and the age of its snapshot."""

    cluster_id: str
    bootstrap_servers: str
    controller: int
    brokers: int
    topics: int
    replicas: int
    moving_partitions: int
    sampled_ms: int
    backend_pid: int
    backend_version: str
