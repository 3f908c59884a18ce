"""Topics full of all kinds of records, and what is in them as a client reads it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kshunt.backend.pipeline.kernels.copying import SOURCE_HEADER
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.topics import TO_THE_END

DEADLINE_S = 60.0
BEGIN_MS = 1_000_000_000_000
"""In 2001."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record, and where it is."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[Any, ...]:
        """What a copy keeps."""
        others = tuple(header for header in self.headers if header[0] != SOURCE_HEADER)
        return self.timestamp_ms, self.key, self.value, others

    @property
    def source(self) -> tuple[int, int]:
        """Where the header says that it was copied from."""
        (found,) = (value for name, value in self.headers if name == SOURCE_HEADER)
        partition, offset = (found or b"").split(b":")
        return int(partition), int(offset)


def made(seed: int, count: int) -> Iterator[tuple[bytes | None, bytes | None, int, list[Any]]]:
    """Records with and without key, value and headers, at old times that go back and forth."""
    dice = random.Random(seed)
    for n in range(count):
        key = dice.choices([None, b"", b"key-%d" % dice.randrange(500)], [10, 1, 89])[0]
        value = dice.choices([None, b"", b"%d " % n + dice.randbytes(20)], [10, 1, 89])[0]
        headers = [("trace", b"%d" % n), ("trace", b""), ("none", None)][: dice.randrange(4)]
        yield key, value, BEGIN_MS + dice.randrange(10**9), headers


def filled(servers: str, topic: str, seed: int, count: int, in_transaction: int = 500) -> None:
    """Write records in transactions, of which each fourth and the last are aborted."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "log_level": 0,
            "transactional.id": f"filling-{topic}",
            "partitioner": "murmur2_random",
        }
    )
    producer.init_transactions(DEADLINE_S)
    records = [*made(seed, count)]
    for number, start in enumerate(range(0, count, in_transaction)):
        _transaction(producer, topic, records[start : start + in_transaction])
        if number % 4 == 3:
            _transaction(producer, topic, records[:in_transaction], aborted=True)
    _transaction(producer, topic, records[:100], aborted=True)


def _transaction(
    producer: Producer, topic: str, records: Iterable[Any], *, aborted: bool = False
) -> None:
    producer.begin_transaction()
    for key, value, at_ms, headers in records:
        producer.produce(topic, value, key, timestamp=at_ms, headers=headers)
        producer.poll(0)
    if aborted:
        assert producer.flush(DEADLINE_S) == 0
        producer.abort_transaction(DEADLINE_S)
    else:
        producer.commit_transaction(DEADLINE_S)


def held(servers: str, topic: str) -> Sequence[Record]:
    """All committed records, by partition and offset."""
    clients = {"bootstrap.servers": servers, "log_level": 0}
    ends = TopicQuestions(clients).ends(topic)
    consumer = Consumer(
        {
            **clients,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **TO_THE_END,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    records: list[Record] = []
    ended: set[int | None] = set()
    while len(ended) < len(ends):
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                records.append(_record(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
