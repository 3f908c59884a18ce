"""What a command answers: records to commit, and a result for each item of the request."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kshunt.backend import error_codes
from kshunt.backend.embedded.metadata.records import Record

Item = TypeVar("Item")
"""What a result is about: a topic, a partition, a broker id or a configuration resource."""


class KafkaError(enum.IntEnum):
    """Kafka's error codes that the controller answers with, by their protocol names."""

    NONE = error_codes.NONE
    UNKNOWN_TOPIC_OR_PARTITION = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    BROKER_NOT_AVAILABLE = error_codes.BROKER_NOT_AVAILABLE
    INVALID_TOPIC_EXCEPTION = error_codes.INVALID_TOPIC_EXCEPTION
    UNKNOWN_MEMBER_ID = error_codes.UNKNOWN_MEMBER_ID
    TOPIC_ALREADY_EXISTS = error_codes.TOPIC_ALREADY_EXISTS
    INVALID_PARTITIONS = error_codes.INVALID_PARTITIONS
    INVALID_REPLICATION_FACTOR = error_codes.INVALID_REPLICATION_FACTOR
    INVALID_REPLICA_ASSIGNMENT = error_codes.INVALID_REPLICA_ASSIGNMENT
    INVALID_CONFIG = error_codes.INVALID_CONFIG
    NOT_CONTROLLER = error_codes.NOT_CONTROLLER
    INVALID_REQUEST = error_codes.INVALID_REQUEST
    LOG_DIR_NOT_FOUND = error_codes.LOG_DIR_NOT_FOUND
    REASSIGNMENT_IN_PROGRESS = error_codes.REASSIGNMENT_IN_PROGRESS
    TOPIC_DELETION_DISABLED = error_codes.TOPIC_DELETION_DISABLED
    FENCED_LEADER_EPOCH = error_codes.FENCED_LEADER_EPOCH
    STALE_BROKER_EPOCH = error_codes.STALE_BROKER_EPOCH
    PREFERRED_LEADER_NOT_AVAILABLE = error_codes.PREFERRED_LEADER_NOT_AVAILABLE
    ELIGIBLE_LEADERS_NOT_AVAILABLE = error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE
    ELECTION_NOT_NEEDED = error_codes.ELECTION_NOT_NEEDED
    NO_REASSIGNMENT_IN_PROGRESS = error_codes.NO_REASSIGNMENT_IN_PROGRESS
    INVALID_UPDATE_VERSION = error_codes.INVALID_UPDATE_VERSION
    UNKNOWN_TOPIC_ID = error_codes.UNKNOWN_TOPIC_ID
    DUPLICATE_BROKER_REGISTRATION = error_codes.DUPLICATE_BROKER_REGISTRATION
    BROKER_ID_NOT_REGISTERED = error_codes.BROKER_ID_NOT_REGISTERED
    INELIGIBLE_REPLICA = error_codes.INELIGIBLE_REPLICA
    NEW_LEADER_ELECTED = error_codes.NEW_LEADER_ELECTED
    REPLICA_PLACEMENT_FAILED = error_codes.REPLICA_PLACEMENT_FAILED
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
