"""Who reads a topic and who writes it: consumer groups, producers, offsets, a few records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.topics.partitioners import KeysSeen

INACTIVE_STATES: Final = frozenset({"Empty", "Dead"})
"""Kafka's names of the states of a group without members, whose offsets may be set."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer of a group, as its coordinator knows it."""

    member_id: str
    client_id: str
    host: str
    """As Kafka writes it: with a slash before the address."""
    instance_id: str | None = None
    """Its `group.instance.id` (KIP-345), or None."""
    partitions: tuple[int, ...] = ()
    """Partitions of the topic that it reads."""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A group that has to do with a topic: by its committed offsets, or by its members."""

    name: str
    state: str
    """Kafka's word: Empty, Stable, PreparingRebalance ..."""
    kind: str
    """Kafka's word: `classic`, or `consumer` (KIP-848)."""
    committed: Mapping[int, int]
    """Committed offset by partition of the topic; a partition without one is absent."""
    members: tuple[GroupMember, ...] = ()

    @property
    def active(self) -> bool:
        """True while it has members, or may have."""
        return bool(self.members) or self.state not in INACTIVE_STATES


@dataclass(frozen=True, slots=True)
class GroupsRead:
    """The groups of a topic, and what could not be read."""

    groups: tuple[ConsumerGroup, ...]
    """By name."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why, by what it is: `group orders`, `groups of broker 3`."""


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition's leader remembers: an idempotent or a transactional one.

    What a producer without idempotence writes is seen in offsets and timestamps alone.
    """

    producer_id: int
    epoch: int
    last_ms: int
    """Timestamp of its last batch, by the producer's clock; -1 where it is not known."""
    transaction_start: int | None = None
    """First offset of its open transaction; None where none is open."""
    transactional_id: str | None = None
    """None where it has none, or where the cluster does not say."""


@dataclass(frozen=True, slots=True)
class ProducersRead:
    """The producers of partitions, and what could not be read."""

    producers: Mapping[int, tuple[ActiveProducer, ...]]
    """By partition; one whose leader did not say is absent."""
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Where a partition's log begins and ends, as its leader tells a consumer."""

    start: int
    """Its first offset."""
    end: int
    """Its high watermark: the offset of the next record that a consumer will see."""
    stable_end: int
    """The offset before which no transaction is open; smaller than `end` while one is."""
    oldest_ms: int | None = None
    """Timestamp of its first record; None where it has none, or it is not known."""
    newest_ms: int | None = None
    """The largest timestamp in it; None where it has none, or it is not known."""


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """Offsets of a topic's partitions, and what could not be read."""

    offsets: Mapping[int, PartitionOffsets]
    """By partition; one whose leader did not say is absent."""
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordSample:
    """What the last records of some partitions look like."""

    records: int
    """How many were looked at; no record says anything about those before it."""
    keyed: int
    """How many of them have a key."""
    tombstones: int = 0
    """How many have no value."""
    largest_bytes: int = 0
    """Key and value of the largest one, without headers."""
    partitions: tuple[int, ...] = ()
    """Where records were found."""
    unread: Mapping[str, str] = field(default_factory=dict)
    seen: KeysSeen = field(default_factory=KeysSeen)
    """Their distinct keys."""
