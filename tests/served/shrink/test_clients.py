"""Unmodified clients on a topic that shrinks (KIP-694): what they write, read and commit."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.admin import fresh_name
from tests.support.embedded.background import Running
from tests.support.topics import TO_THE_END, create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
ENABLED = {
    "delete.topic.partition.enable": "true",
    "delete.topic.partition.interval.delay.ms": "1000",
}
HOURS_MS = 3_600_000


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return ClusterSpec(plain_brokers(3), seed=5, static=ENABLED)


@pytest.fixture
def topic(embedded: Running) -> str:
    name = fresh_name("client")
    create_topic(embedded.bootstrap_servers, name, [[1, 2], [2, 3], [3, 1]])
    return name


class Writer:
    """A producer, and what became of its records."""

    def __init__(self, handle: Running, topic: str, **config: object) -> None:
        plain = {"log_level": 0, "bootstrap.servers": handle.bootstrap_servers, "acks": "all"}
        self.producer = Producer({**plain, **config})
        self.topic = topic
        self.failed: list[tuple[int, str]] = []

    def write(self, *partitions: int) -> None:
        for number in partitions:
            self.producer.produce(self.topic, b"v", partition=number, on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append((int(message.partition() or 0), error.name()))


def read(handle: Running, topic: str, number: int) -> int:
    """How many records a partition has that are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": handle.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            **TO_THE_END,
            "isolation.level": "read_committed",
        }
    )
    count = 0
    try:
        consumer.assign([TopicPartition(topic, number, 0)])
        while (message := consumer.poll(DEADLINE_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                return count
            count += 1
    finally:
        consumer.close()
    raise AssertionError("the end was not reached")


def shrink(client: BackendClient, topic: str, count: int, delay_ms: int = 0) -> None:
    answer = client.shrinks.delete_partitions({topic: DeletePartitions(count, delay_ms)})
    assert not answer.failures


@pytest.mark.conforms("kip-694:mode-read-only", "kip-694:client-writes")
def test_a_partition_that_goes_is_read_and_not_written(
    embedded: Running, client: BackendClient, topic: str
) -> None:
    writer = Writer(embedded, topic)
    writer.write(0, 1, 2)
    assert writer.producer.flush(DEADLINE_S) == 0
    shrink(client, topic, 2, HOURS_MS)
    writer.write(0, 1, 2)
    assert writer.producer.flush(DEADLINE_S) == 0
    assert writer.failed == [(2, "POLICY_VIOLATION")]
    assert [read(embedded, topic, number) for number in range(3)] == [2, 2, 1]
    shrink(client, topic, 3)
    writer.write(0, 1, 2)
    assert writer.producer.flush(DEADLINE_S) == 0
    assert [read(embedded, topic, number) for number in range(3)] == [3, 3, 2]
    assert len(writer.failed) == 1


def test_a_transaction_ends_although_a_partition_of_it_goes(
    embedded: Running, client: BackendClient, topic: str
) -> None:
    writer = Writer(embedded, topic, **{"transactional.id": topic})
    writer.producer.init_transactions(DEADLINE_S)
    writer.producer.begin_transaction()
    writer.write(0, 2)
    assert writer.producer.flush(DEADLINE_S) == 0
    shrink(client, topic, 2, HOURS_MS)
    writer.producer.commit_transaction(DEADLINE_S)
    assert [read(embedded, topic, number) for number in (0, 2)] == [1, 1]
    writer.producer.begin_transaction()
    writer.write(0, 1)
    assert writer.producer.flush(DEADLINE_S) == 0
    # Broker 3 has a replica of the partition that goes, and cannot delete it.
    embedded.call(lambda cluster: cluster.stop_broker(3))
    shrink(client, topic, 1)
    writer.producer.commit_transaction(DEADLINE_S)
    writer.producer.begin_transaction()
    writer.write(0)
    writer.producer.commit_transaction(DEADLINE_S)
    assert read(embedded, topic, 0) == 3
    embedded.call(lambda cluster: cluster.start_broker(3))

    def left() -> int:
        return embedded.call(lambda cluster: len(cluster.image.topics[topic].partitions))

    wait_until(lambda: left() == 1, DEADLINE_S, "the others are gone")
    assert writer.failed == []
