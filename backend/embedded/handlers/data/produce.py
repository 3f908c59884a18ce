"""Produce: append clients' batches on their leaders, and wait for replicas where asked to.

What it does as Kafka's `KafkaApis` and `ReplicaManager` do:

- An error is a partition's, never the request's.
- A batch that an idempotent producer repeats is answered like the first time.
- With acks=all the answer waits until the high watermark has passed the batch.
- With acks=0 there is no answer, and an error ends the connection. This is how such a producer
  learns that it must look for another leader.

KIP-694 names no error for a produce request to a partition that is ReadOnly; its own producer
filters such partitions out before it sends. POLICY_VIOLATION is what other clients get. It is
final, so an application learns of it immediately. With a retriable code it would try for two
minutes what cannot succeed. A partition of mode None is answered as one that is gone
(UNKNOWN_TOPIC_OR_PARTITION), so that clients look for what is left of the topic.

What it does not do: recompress for a topic's compression.type, look for records without keys in
compacted topics, and judge the timestamps that clients give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from kshunt.backend.domain.cluster.config_names import (
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_TYPE,
    MIN_ISR,
)
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.data.partition_lookup import (
    NO_OFFSET,
    DataCode,
    FoundPartition,
    known_brokers,
    leading_error,
    place_again,
    place_in,
    topic_config,
    topic_of,
)
from kshunt.backend.embedded.logs import batch as log_batch
from kshunt.backend.embedded.logs.batch import BatchHeader
from kshunt.backend.embedded.logs.errors import BatchTooLarge, CorruptBatch, LogError
from kshunt.backend.embedded.metadata.records import PartitionModeCode
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireClose
from kshunt.backend.embedded.net.server import Handler, RequestContext

MayWrite: TypeAlias = Callable[[int, int, str, int], bool]
"""Producer id, epoch, topic, partition: whether the producer's transaction includes it."""

PRODUCE: Final = 0
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to internal topics."""

TOPIC_IDS_FROM: Final = 13
_LEADERS_FROM: Final = 10
_ABORTABLE_FROM: Final = 11
_ZSTD: Final = 4
_ZSTD_FROM: Final = 7
_ANSWER: Final = KAFKA_APIS[PRODUCE].response
_TOPIC: Final = _ANSWER.TopicProduceResponse
_PARTITION: Final = _TOPIC.PartitionProduceResponse


@dataclass(slots=True)
class _AppendOutcome:
    """What became of one partition's batch."""

    index: int
    error: int = DataCode.NONE
    message: str | None = None
    place: FoundPartition | None = None
    base_offset: int = NO_OFFSET
    end_offset: int = NO_OFFSET
    append_ms: int = -1
    log_start: int = NO_OFFSET


class _BatchRefused(Exception):
    """A batch may not be appended."""

    def __init__(self, code: DataCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def handlers(world: World, *, may_write: MayWrite | None = None) -> dict[int, Handler]:
    """Produce by its API key; without `may_write` every transactional batch is let in."""
    return {PRODUCE: _Produce(world, may_write).produce}


class _Produce:
    def __init__(self, world: World, may_write: MayWrite | None) -> None:
        self._world = world
        self._may_write = may_write

    async def produce(self, context: RequestContext, message: Any) -> Any | None:
        """The answer, or None for acks=0.

        Raises:
            WireClose: acks=0, and a batch was refused.
        """
        topics = [
            (topic, self._topic(context, message.acks, topic)) for topic in message.topic_data
        ]
        outcomes = [outcome for _, found in topics for outcome in found]
        if any(outcome.end_offset != NO_OFFSET for outcome in outcomes):
            self._world.changed()
        if message.acks == ACKS_NONE:
            if any(outcome.error for outcome in outcomes):
                raise WireClose("a batch with acks=0 was refused")
            return None
        if message.acks == ACKS_ALL:
            await self._replicated(context.broker_id, outcomes, message.timeout_ms)
        return self._answer(context.version, topics)

    # --- appending

    def _topic(self, context: RequestContext, acks: int, asked: Any) -> list[_AppendOutcome]:
        topic_id: UUID | None = asked.topic_id if context.version >= TOPIC_IDS_FROM else None
        topic, unknown = topic_of(self._world.core.image, asked.name, topic_id)
        found = []
        for data in asked.partition_data:
            outcome = _AppendOutcome(data.index, unknown)
            if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
                outcome.error = DataCode.INVALID_REQUIRED_ACKS
            elif topic is not None:
                outcome.place = place_in(self._world, topic, data.index)
                outcome.error = DataCode.UNKNOWN_TOPIC_OR_PARTITION
            if outcome.place is not None:
                self._try(context, acks, outcome, outcome.place, data.records)
            found.append(outcome)
        return found

    def _try(
        self,
        context: RequestContext,
        acks: int,
        outcome: _AppendOutcome,
        place: FoundPartition,
        data: bytes | None,
    ) -> None:
        """Append, and put into the outcome what came of it."""
        plane = self._world.core.plane
        try:
            header = _the_batch(data, context.version)
            self._check(context, acks, place, header)
            self._append(outcome, place, bytes(data or b""))
            outcome.error = DataCode.NONE
        except _BatchRefused as refused:
            outcome.error, outcome.message = refused.code, refused.message
            if refused.code is DataCode.NOT_ENOUGH_REPLICAS:
                outcome.log_start = plane.log_start_offset(place.held)
        except LogError as refused_by_log:
            outcome.error = refused_by_log.kafka_code
            if outcome.error == DataCode.INVALID_RECORD:
                outcome.message = str(refused_by_log)
            # Kafka tells no offset for a batch that it could not make sense of.
            if not isinstance(refused_by_log, CorruptBatch | BatchTooLarge):
                outcome.log_start = plane.log_start_offset(place.held)

    def _check(
        self, context: RequestContext, acks: int, place: FoundPartition, header: BatchHeader
    ) -> None:
        """Whether this broker takes this batch for this partition.

        Raises:
            _BatchRefused: it does not.
        """
        image = self._world.core.image
        name = place.topic.name
        if name in INTERNAL_TOPICS and context.header.client_id != ADMIN_CLIENT:
            raise _BatchRefused(DataCode.INVALID_TOPIC_EXCEPTION)
        error = leading_error(image, place, context.broker_id)
        if error:
            raise _BatchRefused(error)
        if place.partition.mode is not PartitionModeCode.READ_WRITE:
            why = f"Partition {name}-{place.number} is read-only: it is going to be deleted."
            raise _BatchRefused(DataCode.POLICY_VIOLATION, why)
        self._check_transaction(context.version, place, header)
        if acks == ACKS_ALL and len(place.partition.isr) < self._min_isr(place):
            raise _BatchRefused(DataCode.NOT_ENOUGH_REPLICAS)

    def _check_transaction(self, version: int, place: FoundPartition, header: BatchHeader) -> None:
        if not header.is_transactional or self._may_write is None:
            return
        who = header.producer_id, header.producer_epoch
        if not self._may_write(*who, place.topic.name, place.number):
            abortable = version >= _ABORTABLE_FROM
            raise _BatchRefused(
                DataCode.TRANSACTION_ABORTABLE if abortable else DataCode.INVALID_TXN_STATE
            )

    def _append(self, outcome: _AppendOutcome, place: FoundPartition, data: bytes) -> None:
        core = self._world.core
        max_bytes = int(topic_config(core.image, place.topic, MAX_MESSAGE_BYTES))
        kind = topic_config(core.image, place.topic, MESSAGE_TIMESTAMP_TYPE)
        append_ms = core.now_ms if kind == "LogAppendTime" else None
        appended = core.plane.append(place.held, data, max_bytes, append_ms=append_ms)
        outcome.base_offset, outcome.end_offset = appended.base_offset, appended.end_offset
        outcome.append_ms = -1 if append_ms is None else append_ms
        outcome.log_start = core.plane.log_start_offset(place.held)

    def _min_isr(self, place: FoundPartition) -> int:
        """min.insync.replicas, but no more than the partition has replicas."""
        wanted = int(topic_config(self._world.core.image, place.topic, MIN_ISR))
        return min(wanted, len(place.partition.replicas))

    # --- waiting

    async def _replicated(
        self, broker: int, outcomes: Iterable[_AppendOutcome], timeout_ms: int
    ) -> None:
        """Wait until everything that was appended is on all replicas in sync."""
        waiting = [outcome for outcome in outcomes if not outcome.error]

        def answered() -> bool:
            waiting[:] = [outcome for outcome in waiting if not self._is_answered(broker, outcome)]
            return not waiting

        if not await self._world.until(answered, max(timeout_ms, 0) / 1000, moves_clock=True):
            for outcome in waiting:
                outcome.error = DataCode.REQUEST_TIMED_OUT

    def _is_answered(self, broker: int, outcome: _AppendOutcome) -> bool:
        """Whether it is decided what became of an append; an error is put into the outcome."""
        place = outcome.place and place_again(self._world, outcome.place)
        if place is None:
            outcome.error = DataCode.UNKNOWN_TOPIC_OR_PARTITION
            return True
        outcome.error = leading_error(self._world.core.image, place, broker)
        if outcome.error:
            return True
        if self._world.core.plane.high_watermark(place.held) < outcome.end_offset:
            return False
        if len(place.partition.isr) < self._min_isr(place):
            outcome.error = DataCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True

    # --- answering

    def _answer(self, version: int, topics: list[tuple[Any, list[_AppendOutcome]]]) -> Any:
        leaders: set[int] = set()
        answered = []
        for asked, outcomes in topics:
            parts = list(self._partitions(version, outcomes, leaders))
            entry = _TOPIC(version=version, name=asked.name, partition_responses=parts)
            if version >= TOPIC_IDS_FROM:
                entry.topic_id = asked.topic_id
            answered.append(entry)
        answer = _ANSWER(version=version, responses=answered)
        brokers = known_brokers(self._world.core.image, leaders)
        if brokers:
            node = _ANSWER.NodeEndpoint
            answer.node_endpoints = [
                node(version=version, node_id=b.id, host=b.host, port=b.port, rack=b.rack)
                for b in brokers
            ]
        return answer

    def _partitions(
        self, version: int, outcomes: list[_AppendOutcome], leaders: set[int]
    ) -> Iterator[Any]:
        """Each partition's entry; the leaders that clients are sent to are added to `leaders`."""
        for outcome in outcomes:
            entry = _PARTITION(
                version=version,
                index=outcome.index,
                error_code=int(outcome.error),
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.append_ms,
                log_start_offset=outcome.log_start,
                record_errors=[],
                error_message=outcome.message,
            )
            place = outcome.place and place_again(self._world, outcome.place)
            moved = outcome.error == DataCode.NOT_LEADER_OR_FOLLOWER
            if moved and place is not None and version >= _LEADERS_FROM:
                leader, epoch = place.partition.leader, place.partition.leader_epoch
                current = _PARTITION.LeaderIdAndEpoch
                entry.current_leader = current(
                    version=version, leader_id=leader, leader_epoch=epoch
                )
                leaders.add(leader)
            yield entry


def _the_batch(data: bytes | None, version: int) -> BatchHeader:
    """The header of the one batch that a partition's records may hold.

    Raises:
        _BatchRefused: there is none, or another one after it, or its codec came later than
            `version`.
        CorruptBatch: there is less than a header.
    """
    if not data:
        why = f"Produce requests with version {version} must have at least one record batch."
        raise _BatchRefused(DataCode.INVALID_RECORD, why)
    header = log_batch.read_header(data)
    if header.magic == log_batch.MAGIC and log_batch.size_of(header) < len(data):
        why = f"Produce requests with version {version} must have exactly one record batch."
        raise _BatchRefused(DataCode.INVALID_RECORD, why)
    if header.attributes & log_batch.CODEC_MASK == _ZSTD and version < _ZSTD_FROM:
        raise _BatchRefused(DataCode.UNSUPPORTED_COMPRESSION_TYPE)
    return header
