"""Why a partition's log refuses an append or a read, each with the code Kafka answers."""

from __future__ import annotations

from kshunt.backend.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    INVALID_TXN_STATE,
    MESSAGE_TOO_LARGE,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kshunt.backend.errors import KshuntError


class LogError(KshuntError):
    """A log refused one call; nothing was written."""

    title = "The log refused"


class CorruptBatch(LogError):
    """A batch's length or its CRC-32C is wrong."""

    kafka_code = CORRUPT_MESSAGE
    retriable = True


class OffsetOutOfRange(LogError):
    """An offset lies before the log's start or after its end."""

    kafka_code = OFFSET_OUT_OF_RANGE


class BatchTooLarge(LogError):
    """A batch exceeds max.message.bytes."""

    kafka_code = MESSAGE_TOO_LARGE


class InvalidRecord(LogError):
    """A batch is whole, and says something a client may not say."""

    kafka_code = INVALID_RECORD


class OutOfOrderSequence(LogError):
    """An idempotent producer's batch does not follow its last one."""

    kafka_code = OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(LogError):
    """A newer instance of the producer has written already."""

    kafka_code = INVALID_PRODUCER_EPOCH


class InvalidTxnState(LogError):
    """A producer mixes records inside and outside of its open transaction."""

    kafka_code = INVALID_TXN_STATE
