"""Copying the records of one topic into another, exactly once: what a worker does with a range.

Goals: every committed record of the range is in the target once, with its key, value, headers and
timestamp. The records of a key are in their order. A worker may be killed at any moment.

Algorithm: the records of one source partition are produced by a transactional producer whose id
names the operation and the partition. Its first call fences the worker that copied that partition
before, and ends what that one left open. Only then does the worker ask for the position, which
earlier transactions committed together with their records. It continues from there.

Workers read by librdkafka: to carry a record through Spark's connector, which is Java, and from
there to Python costs more than all that is done here
(`tests/bench/pipeline/bench_repartition.py`). The verification reads by Spark's connector, so it
shares no code with what it judges.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.pipeline.kernels.copy_errors import (
    CopyFailed,
    CopyUnreachable,
    TransactionOpen,
    kind_of,
)
from kshunt.backend.pipeline.kernels.exact_times import ExactProducer
from kshunt.backend.pipeline.kernels.partitioner import NO_KEY, partitions_of_bytes

SOURCE_HEADER: Final = "kshunt-source"
"""Of each copied record: `3:1042`, its partition and offset in the source."""
ROUND_ROBIN: Final = "round-robin"
AS_SOURCE: Final = "as-source"
KEYLESS: Final = (ROUND_ROBIN, AS_SOURCE)
"""Where records without a key go: to each partition in turn, or those of a partition to one."""
OUTCOME: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("failure", pa.string()),
    ]
)
"""What a worker answers."""

Answer = TypeVar("Answer")

_CHUNK: Final = 1_000
_ARRIVAL_S: Final = 0.1
"""librdkafka gives what has come in this time, where a chunk is not full before."""
_QUIET_S: Final = 30.0
_ANSWER_S: Final = 60.0
_ABORT_S: Final = 3.0
_TRANSACTION_RECORDS: Final = 200_000
_TRANSACTION_BYTES: Final = 256 << 20
_FIRST_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 1 << 20
_TRANSACTION_S: Final = 5.0
"""A transaction takes about this long, with the commit; see `_TIMEOUT_S`."""
_TIMEOUT_S: Final = 20.0
"""The cluster ends what a killed worker left open after this time. Until then no consumer of
committed records reads beyond it in the target. This time is more than a broker's death takes until
another leads, and four times what a transaction takes here. A transaction that the cluster ends
while its worker is at work stops the copy."""
_BATCH_BYTES: Final = 1_000_000
_OVERHEAD_BYTES: Final = 1_024
"""What a batch of the protocol has in addition to its records, and more."""
_LARGEST_BYTES: Final = 1_000_000_000
"""More than librdkafka would send; what is too large for the target is for the target to say."""
_PATIENCE_S: Final = 10.0
_THROWN_AWAY: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


@dataclass(frozen=True, slots=True)
class Copying:
    """A copy from a topic to another."""

    clients: Mapping[str, Any]
    """librdkafka's settings, with `bootstrap.servers`."""
    source: str
    target: str
    operation: str
    partitions: int
    """Of the target."""
    limit_bytes: int
    """Largest batch of records that the target takes."""
    strip_header: bool = False
    """Take the header off instead of adding it; each record keeps the number of its partition."""
    keyless: str = ROUND_ROBIN
    partitioner: Partitioner = Partitioner.MURMUR2
    """Places the records that have a key."""
    compression: str = "none"

    @property
    def group(self) -> str:
        """The consumer group that holds how far the copy is."""
        return f"kshunt-shrink-{self.operation}"

    def transactional_id(self, partition: int) -> str:
        """Of the worker that copies this partition of the source."""
        return f"{self.group}-{partition}"


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one source partition."""

    partition: int
    start: int
    end: int
    """The first offset that is not part of it."""


@dataclass(slots=True)
class Copied:
    """How far a range was copied."""

    partition: int
    position: int
    """All records before it are in the target."""
    records: int = 0
    bytes: int = 0
    """Of keys and values."""
    failure: CopyFailed | None = None


def work(batches: Iterable[Any], ranges: Sequence[Range], plan: Copying) -> Iterator[Any]:
    """Copy the ranges whose numbers come; a row each says how far it went."""
    for number in (n for batch in batches for n in batch.column(0).to_pylist()):
        done = copy_range(plan, ranges[number])
        failure = None if done.failure is None else json.dumps(done.failure.as_json())
        row = [[done.partition], [done.position], [done.records], [done.bytes], [failure]]
        yield pa.record_batch(row, schema=OUTCOME)


def copy_range(plan: Copying, range: Range) -> Copied:
    """Copy what is not copied yet of a range; a failure is part of the answer."""
    done = Copied(range.partition, range.start)
    try:
        copier = _Copier.of(plan, range, done)
    except KafkaException as error:
        done.failure = _failure(plan, range, range.start, error.args[0])
        return done
    refused: KafkaError | None = None
    try:
        copier.run()
    except CopyFailed as failure:
        done.failure = failure
    except KafkaException as error:
        refused = error.args[0]
    copier.close(aborting=bool(refused or done.failure))
    if refused is not None:
        # What a record was refused for says more, and may be told only when all is thrown away.
        done.failure = copier.failure or _failure(plan, range, done.position, refused)
    return done


@dataclass(slots=True)
class _Copier:
    plan: Copying
    range: Range
    done: Copied
    producer: Producer | ExactProducer
    consumer: Consumer
    position: int = 0
    """Up to which records were read."""
    hidden_from: int | None = None
    """The end of what can be read, where it is before that of the range."""
    failure: CopyFailed | None = None
    """Of a record that the target has refused."""
    bytes_max: int = _FIRST_BYTES
    """Of the next transaction, so that a slow target ends it in time."""
    arrived_s: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, plan: Copying, range: Range, done: Copied) -> _Copier:
        """Clients that are not connected yet."""
        producer = Producer(_producing(plan, range.partition))
        return cls(plan, range, done, producer, Consumer(_consuming(plan)))

    def run(self) -> None:
        """Copy up to the end of the range."""
        # Whom to ask is else looked for once or twice a second.
        self.producer.list_topics(self.plan.target, _ANSWER_S)
        self.consumer.get_watermark_offsets(self._at(0), _ANSWER_S)
        self.producer.init_transactions(_ANSWER_S)
        self.position = self._committed()
        self.done.position = self.position
        if self.position < self.range.end:
            self.consumer.assign([self._at(self.position)])
        while self.position < self.range.end:
            self._transaction()

    def close(self, *, aborting: bool) -> None:
        """Leave nothing open that can be closed."""
        if aborting:
            # The next worker of the partition ends by its first call what cannot be ended here.
            with suppress(KafkaException):
                self.producer.abort_transaction(_ABORT_S)
        self.consumer.close()
        if isinstance(self.producer, ExactProducer):
            self.producer.close()

    @property
    def is_exact(self) -> bool:
        """Whether any timestamp can be sent."""
        return isinstance(self.producer, ExactProducer)

    def _change_producer(self) -> None:
        """Throw the transaction away, and begin again with a producer that can send all times."""
        with suppress(KafkaException):
            self.producer.abort_transaction(_ABORT_S)
        plan, partition = self.plan, self.range.partition
        self.producer = ExactProducer(
            plan.clients,
            plan.transactional_id(partition),
            plan.group,
            int(_TIMEOUT_S * 1000),
            batch_bytes(plan),
            plan.compression,
        )
        self.producer.list_topics(plan.target, _ANSWER_S)
        # It also ends what could not be thrown away.
        self.producer.init_transactions(_ANSWER_S)
        self.position = self.done.position
        self.consumer.assign([self._at(self.position)])

    def _at(self, offset: int) -> TopicPartition:
        return TopicPartition(self.plan.source, self.range.partition, offset)

    def _committed(self) -> int:
        asked = [self._at(0)]
        (found,) = _repeated(lambda: self.consumer.committed(asked, timeout=_ANSWER_S))
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else self.range.start

    def _transaction(self) -> None:
        """Copy some records, and commit them with the position."""
        began_s = time.monotonic()
        records = bytes_n = 0
        self.producer.begin_transaction()
        while (
            self.position < self.range.end
            and records < _TRANSACTION_RECORDS
            and bytes_n < self.bytes_max
            and time.monotonic() < began_s + _TRANSACTION_S
        ):
            arrived = self._read()
            if any(map(_needs_exact_time, arrived)) and not self.is_exact:
                self._change_producer()
                return
            bytes_n += self._produce(arrived)
            records += len(arrived)
            self._refuse_failure()
        # To commit waits for all records, also where one is refused and so those after it wait.
        while self.producer.flush(_ARRIVAL_S):
            self._refuse_failure()
        self._commit()
        self.bytes_max = following_bytes(self.bytes_max, time.monotonic() - began_s)
        self.done.position = self.position
        self.done.records += records
        self.done.bytes += bytes_n

    def _read(self) -> list[Message]:
        """The next records of the range; none where none came in time."""
        records: list[Message] = []
        end = self.range.end
        # It waits until it has the number of records that are asked for, or the time is over.
        for message in self.consumer.consume(min(_CHUNK, end - self.position), _ARRIVAL_S):
            error, offset = message.error(), message.offset()
            assert offset is not None
            if error is None and offset < end:
                records.append(message)
                self.position = offset + 1
            elif error is None or (_is_end(error) and offset >= end):
                # What is between is of aborted transactions, or compacted, or marks of brokers.
                self.position = end
                break
            elif _is_end(error):
                self.hidden_from = offset
            else:
                raise _failure(self.plan, self.range, self.position, error)
        self._refuse_silence(bool(records) or self.position >= end)
        return records

    def _refuse_silence(self, arrived: bool) -> None:
        now_s = time.monotonic()
        if arrived:
            self.arrived_s, self.hidden_from = now_s, None
        elif now_s > self.arrived_s + _QUIET_S:
            kind: type[CopyFailed] = CopyUnreachable
            if self.hidden_from is not None:
                kind = TransactionOpen
            raise kind(self.plan.source, self.range.partition, self.position)

    def _produce(self, records: Sequence[Message]) -> int:
        """Send records; the bytes of their keys and values."""
        if not records:
            return 0
        sent, refused = 0, partial(self._refused, None)
        large, topic, produce = batch_bytes(self.plan) // 2, self.plan.target, self.producer.produce
        for message, target in zip(records, self._targets(records), strict=True):
            key, value = message.key(), message.value()
            size = (len(key) if key else 0) + (len(value) if value else 0)
            sent += size
            # A large record is in a batch of its own, so it can be named if it is refused.
            on_delivery = refused if size < large else partial(self._refused, message.offset())
            at_ms = _time_of(message)
            # By position: names cost more than the rest of the call.
            record = (
                topic,
                value,
                key,
                target,
                on_delivery,
                on_delivery,
                at_ms,
                self._headers(message),
            )
            try:
                produce(*record)
            except BufferError:
                self._produce_later(*record)
        self.producer.poll(0)
        return sent

    def _produce_later(self, *record: Any) -> None:
        """Send a record once there is room for it."""
        while True:
            self.producer.poll(_ARRIVAL_S)
            with suppress(BufferError):
                return self.producer.produce(*record)

    def _targets(self, records: Sequence[Message]) -> Sequence[int]:
        here, partitions = self.range.partition, self.plan.partitions
        if self.plan.strip_header:
            return [here] * len(records)
        keys = [message.key() for message in records]
        found = partitions_of_bytes(keys, partitions, self.plan.partitioner)
        for i, target in enumerate(found):
            if target == NO_KEY:
                turn = records[i].offset() if self.plan.keyless == ROUND_ROBIN else 0
                found[i] = (here + (turn or 0)) % partitions
        return found

    def _headers(self, message: Message) -> list[tuple[str, Any]]:
        headers: Any = message.headers()
        others = [h for h in headers if h[0] != SOURCE_HEADER] if headers else []
        if self.plan.strip_header:
            return others
        offset: Any = message.offset()
        source = b"%d:%d" % (self.range.partition, offset)
        return [*others, (SOURCE_HEADER, source)]

    def _refused(self, offset: int | None, error: KafkaError, message: Message) -> None:
        """The target did not take a record."""
        # What is thrown away because another record was refused says nothing.
        if self.failure is None and error.code() not in _THROWN_AWAY:
            at = self.done.position if offset is None else offset
            self.failure = _failure(self.plan, self.range, at, error, message.partition())

    def _refuse_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _commit(self) -> None:
        group = self.consumer.consumer_group_metadata()
        position = [self._at(self.position)]
        _repeated(lambda: self.producer.send_offsets_to_transaction(position, group, _ANSWER_S))
        _repeated(lambda: self.producer.commit_transaction(_ANSWER_S))


def _time_of(message: Message) -> int:
    """A record's timestamp; -1, as in Kafka, where it has none."""
    kind, at_ms = message.timestamp()
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else at_ms


def _needs_exact_time(message: Message) -> bool:
    """Whether librdkafka would send another time: it takes 0 for now."""
    return _time_of(message) == 0


def following_bytes(bytes_max: int, seconds: float) -> int:
    """How large the next transaction may be, after one of this size that took this long."""
    if seconds > _TRANSACTION_S:
        return max(bytes_max // 2, _LEAST_BYTES)
    if seconds < _TRANSACTION_S / 4:
        return min(bytes_max * 4, _TRANSACTION_BYTES)
    return bytes_max


def _repeated(call: Callable[[], Answer]) -> Answer:
    """An answer, asked for again where brokers were about to change their parts."""
    give_up_s, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while True:
        try:
            return call()
        except KafkaException as refused:
            error = refused.args[0]
            passing = error.retriable() or kind_of(error.code()).retriable
            if not passing or time.monotonic() > give_up_s:
                raise
        pause.wait(_ARRIVAL_S)


def batch_bytes(plan: Copying) -> int:
    """How large a batch of several records may be, so that the target takes it."""
    return max(1, min(_BATCH_BYTES, plan.limit_bytes - _OVERHEAD_BYTES))


def _producing(plan: Copying, partition: int) -> dict[str, Any]:
    return {
        **plan.clients,
        "logger": quiet(),
        "transactional.id": plan.transactional_id(partition),
        "transaction.timeout.ms": int(_TIMEOUT_S * 1000),
        # A target that was deleted is not to come back empty.
        "allow.auto.create.topics": False,
        "delivery.report.only.error": True,
        "compression.type": plan.compression,
        "batch.size": batch_bytes(plan),
        # Whether a record is too large is for the target to say, once it is compressed.
        "message.max.bytes": _LARGEST_BYTES,
        "linger.ms": 100,
        "queue.buffering.max.kbytes": 65_536,
    }


def _consuming(plan: Copying) -> dict[str, Any]:
    return {
        **plan.clients,
        "logger": quiet(),
        "group.id": plan.group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # A broker waits this long for more at the end of a range that ends with the partition.
        "fetch.wait.max.ms": 50,
        "auto.offset.reset": "error",
        "check.crcs": True,
        # What is fetched beyond the end of a range is fetched again.
        "queued.max.messages.kbytes": 8_192,
        "fetch.message.max.bytes": 2 << 20,
        "fetch.queue.backoff.ms": 10,
    }


def quiet() -> logging.Logger:
    """Of librdkafka, which repeats what errors of calls say."""
    quiet = logging.getLogger("librdkafka")
    if not quiet.handlers:
        quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return quiet


def _is_end(error: KafkaError) -> bool:
    return error.code() == KafkaError._PARTITION_EOF


def _failure(
    plan: Copying, range: Range, offset: int, error: KafkaError, target: int | None = None
) -> CopyFailed:
    where = "" if target is None else f" ({plan.target}-{target})"
    return kind_of(error.code())(plan.source, range.partition, offset, f"{error.str()}{where}")
