"""Why a copy of records stopped, on its way from a worker to the process that asked."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from kshunt.backend import error_codes
from kshunt.backend.error_codes import (
    CONCURRENT_TRANSACTIONS,
    MESSAGE_TOO_LARGE,
    OFFSET_OUT_OF_RANGE,
    PRODUCER_FENCED,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import KshuntError

_WHOLE: Final = (
    "The source is unchanged. Copied records are kept, and the next start continues there."
)


class CopyFailed(KshuntError):
    """A copy stopped; the transaction that was under way left nothing behind.

    `kafka_codes` are the errors of Kafka and of librdkafka (negative) that mean this one.
    """

    title = "The copy stopped"
    http_status = 502
    kafka_codes: ClassVar[frozenset[int]] = frozenset()
    happened: ClassVar[str] = "The copy stopped at {at}."
    cure: ClassVar[str] = "Read the brokers' logs, then start the copy again."

    def __init__(self, topic: str, partition: int, offset: int, reason: str = "") -> None:
        at = f"{topic}-{partition}, offset {offset:,}"
        message = self.happened.format(at=at)
        if reason:
            message = f"{message.rstrip('.')}: {reason.rstrip('.')}."
        super().__init__(f"{message} {_WHOLE}", advice=self.cure)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """Of the first record that may be concerned."""
        self.reason = reason

    def as_json(self) -> dict[str, Any]:
        """For a cell or a line."""
        return {
            "kind": type(self).__name__,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "reason": self.reason,
        }


class RecordTooLarge(CopyFailed):
    """The target does not take a record of this size."""

    title = "Record too large"
    kafka_code = MESSAGE_TOO_LARGE
    http_status = 409
    kafka_codes = frozenset(
        {
            error_codes.MESSAGE_TOO_LARGE,
            error_codes.RECORD_LIST_TOO_LARGE,
        }
    )
    happened = "The record at {at} is larger than the target's max.message.bytes."
    cure = "Set max.message.bytes of the target higher (each record gets 30 bytes more)."


class CopyRefused(CopyFailed):
    """The cluster refuses this principal."""

    title = "Not authorized by the cluster"
    kafka_code = TOPIC_AUTHORIZATION_FAILED
    http_status = 403
    kafka_codes = frozenset(
        {
            error_codes.TOPIC_AUTHORIZATION_FAILED,
            error_codes.GROUP_AUTHORIZATION_FAILED,
            error_codes.CLUSTER_AUTHORIZATION_FAILED,
            error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            error_codes.SASL_AUTHENTICATION_FAILED,
            -169,
        }
    )
    happened = "The cluster refuses the copy at {at}."
    cure = (
        "It needs READ on the source, WRITE and DESCRIBE on the target, and READ on the group and "
        "WRITE on the transactional ids that begin with kshunt-shrink-."
    )


class CopyFenced(CopyFailed):
    """Another copy of the same operation took over."""

    title = "Another copy took over"
    kafka_code = PRODUCER_FENCED
    http_status = 409
    kafka_codes = frozenset(
        {
            error_codes.PRODUCER_FENCED,
            error_codes.INVALID_PRODUCER_EPOCH,
            error_codes.INVALID_PRODUCER_ID_MAPPING,
            error_codes.CONCURRENT_TRANSACTIONS,
            -144,
        }
    )
    happened = "Another copy of the same operation took over at {at}."
    cure = "Let one of them run; none of them copies a record twice."


class TopicGone(CopyFailed):
    """The source or the target is not there any more."""

    title = "Topic gone"
    kafka_code = UNKNOWN_TOPIC_OR_PARTITION
    http_status = 409
    kafka_codes = frozenset(
        {
            error_codes.UNKNOWN_TOPIC_OR_PARTITION,
            -188,
            -190,
        }
    )
    happened = "The copy at {at} does not find its topic or partition."
    cure = "Check whether the source or the target was deleted."


class RecordsGone(CopyFailed):
    """Records were deleted from the source before they were copied."""

    title = "Records deleted before they were copied"
    kafka_code = OFFSET_OUT_OF_RANGE
    http_status = 409
    kafka_codes = frozenset(
        {
            error_codes.OFFSET_OUT_OF_RANGE,
            -140,
        }
    )
    happened = "Records of the source were deleted before they were copied, from {at} on."
    cure = "Set retention.ms and retention.bytes of the source to -1 and begin a new copy."


class TransactionOpen(CopyFailed):
    """A producer's transaction is open in the source, so what comes after it cannot be read."""

    title = "A transaction is open"
    retriable = True
    kafka_code = CONCURRENT_TRANSACTIONS
    http_status = 409
    happened = "A producer's open transaction hides the records of the source from {at} on."
    cure = "Wait until it ends, or end it (kafka-transactions.sh --abort), then start again."


class CopyUnreachable(CopyFailed):
    """Brokers did not answer in time."""

    title = "Brokers do not answer"
    retriable = True
    kafka_code = REQUEST_TIMED_OUT
    http_status = 503
    kafka_codes = frozenset(
        {
            error_codes.LEADER_NOT_AVAILABLE,
            error_codes.NOT_LEADER_OR_FOLLOWER,
            error_codes.REQUEST_TIMED_OUT,
            error_codes.NETWORK_EXCEPTION,
            error_codes.COORDINATOR_LOAD_IN_PROGRESS,
            error_codes.COORDINATOR_NOT_AVAILABLE,
            error_codes.NOT_COORDINATOR,
            error_codes.NOT_ENOUGH_REPLICAS,
            error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            -185,
            -192,
            -195,
            -187,
        }
    )
    happened = "Brokers did not answer in time for the copy at {at}."
    cure = "Check that the brokers run, then start the copy again."


_KINDS: Final = (
    CopyFailed,
    RecordTooLarge,
    CopyRefused,
    CopyFenced,
    TopicGone,
    RecordsGone,
    TransactionOpen,
    CopyUnreachable,
)


def kind_of(code: int) -> type[CopyFailed]:
    """What an error of librdkafka's means for a copy."""
    return next((kind for kind in _KINDS if code in kind.kafka_codes), CopyFailed)


def from_json(text: str) -> CopyFailed:
    """What `as_json` gave, as text."""
    values = json.loads(text)
    name = values.pop("kind")
    return next(kind for kind in _KINDS if kind.__name__ == name)(**values)
