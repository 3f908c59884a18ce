"""Why a partition's log refuses an append or a read, each with the code Kafka answers."""

from __future__ import annotations

from kshunt.backend.errors import KshuntError


class LogError(KshuntError):
    """A log refused one call; nothing was written."""

    title = "The log refused"


class CorruptBatch(LogError):
    """A batch's length or its CRC-32C is wrong."""

    kafka_code = 2
    retriable = True


class OffsetOutOfRange(LogError):
    """An offset lies before the log's start or after its end."""

    kafka_code = 1


class BatchTooLarge(LogError):
    """A batch exceeds max.message.bytes."""

    kafka_code = 10


class InvalidRecord(LogError):
    """A batch is whole, and says something a client may not say."""

    kafka_code = 87


class OutOfOrderSequence(LogError):
    """An idempotent producer's batch does not follow its last one."""

    kafka_code = 45


class InvalidProducerEpoch(LogError):
    """A newer instance of the producer has written already."""

    kafka_code = 47


class InvalidTxnState(LogError):
    """A producer mixes records inside and outside of its open transaction."""

    kafka_code = 48
