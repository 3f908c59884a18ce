"""What the coordinators remember: Kafka's `__consumer_offsets` and `__transaction_state`.

Encoded like the controller's records (`metadata.records`), from type 101 on. Members of groups are
not kept: they join again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.metadata.records import Record, register


@dataclass(frozen=True, slots=True)
class OffsetCommitted(Record):
    """A group committed an offset of a partition."""

    TYPE: ClassVar[int] = 101
    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    """Of the last record that was consumed; -1 is unknown."""
    metadata: str
    commit_ms: int
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class OffsetForgotten(Record):
    """A group's offset of a partition is gone, and what was pending for it."""

    TYPE: ClassVar[int] = 102
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetPending(Record):
    """A producer committed an offset in its transaction, which is open."""

    TYPE: ClassVar[int] = 103
    producer_id: int
    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int


@dataclass(frozen=True, slots=True)
class PendingOffsetsEnded(Record):
    """A producer's transaction ended: its pending offsets hold, or never were."""

    TYPE: ClassVar[int] = 104
    producer_id: int
    committed: bool


class TransactionState(enum.IntEnum):
    """How far a transactional id's transaction is; Kafka's names and numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


@dataclass(frozen=True, slots=True)
class TransactionChanged(Record):
    """All that is known of a transactional id; it replaces what was."""

    TYPE: ClassVar[int] = 105
    transactional_id: str
    producer_id: int
    epoch: int
    last_producer_id: int
    """The id before the epochs of one ran out, or -1."""
    last_epoch: int
    """The epoch before the last bump that its producer asked for, or -1."""
    next_producer_id: int
    """The id that follows when this transaction is complete, or -1."""
    timeout_ms: int
    state: int
    topics: tuple[str, ...] = ()
    """Topic of each partition of the transaction."""
    partitions: tuple[int, ...] = ()
    """Number of each partition of the transaction, in the same order."""
    groups: tuple[str, ...] = ()
    """Groups whose offsets it commits."""

    @property
    def members(self) -> frozenset[TopicPartition]:
        """The partitions of the transaction."""
        return frozenset(map(TopicPartition, self.topics, self.partitions))


register(OffsetCommitted, OffsetForgotten, OffsetPending, PendingOffsetsEnded, TransactionChanged)
