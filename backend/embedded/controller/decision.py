"""What a command answers: records to commit, and a result for each item of the request."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kshunt.backend.embedded.metadata.records import Record

Item = TypeVar("Item")
"""What a result is about: a topic, a partition, a broker id or a configuration resource."""


class KafkaError(enum.IntEnum):
    """Kafka's error codes that the controller answers with, by their protocol names."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    BROKER_NOT_AVAILABLE = 8
    INVALID_TOPIC_EXCEPTION = 17
    UNKNOWN_MEMBER_ID = 25
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    LOG_DIR_NOT_FOUND = 57
    REASSIGNMENT_IN_PROGRESS = 60
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    STALE_BROKER_EPOCH = 77
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    REPLICA_PLACEMENT_FAILED = 10_000
    """KIP-660 gives the name and no number; this one is private, like the seeds' API keys."""


MESSAGE_MAX = 1_000
"""Characters of a message: a name in it may be as long as a request."""


class ItemRefused(Exception):
    """One item of a request cannot be done; caught by the command, never seen outside."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message[:MESSAGE_MAX]


@dataclass(frozen=True, slots=True)
class DecidedItem(Generic[Item]):
    """What became of one item."""

    item: Item
    error: KafkaError = KafkaError.NONE
    message: str | None = None
    """Kafka's words where Kafka has them; None for success."""
    status_code: int | None = None
    """For `delete_partitions` the partition's mode (KIP-694, DeletePartitionsResponse)."""

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error is KafkaError.NONE

    @classmethod
    def refused(cls, item: Item, refusal: ItemRefused) -> DecidedItem[Item]:
        """The result of an item that cannot be done."""
        return cls(item, refusal.error, refusal.message)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Item]):
    """Records to commit together, in this order, and what to answer."""

    records: tuple[Record, ...] = ()
    results: tuple[DecidedItem[Item], ...] = ()
    error: KafkaError = KafkaError.NONE
    """Of the request as a whole; with one there are no records."""
    message: str | None = None

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        results: Iterable[DecidedItem[Item]] = (),
        *,
        validate_only: bool = False,
    ) -> Decision[Item]:
        """A decision; one that only validates has no records to replay."""
        return cls(() if validate_only else tuple(records), tuple(results))

    @classmethod
    def refused(cls, refusal: ItemRefused) -> Decision[Item]:
        """A request that failed as a whole."""
        return cls(error=refusal.error, message=refusal.message)

    def result(self, item: Item) -> DecidedItem[Item]:
        """The result of one item.

        Raises:
            KeyError: the request had no such item.
        """
        for result in self.results:
            if result.item == item:
                return result
        raise KeyError(item)
