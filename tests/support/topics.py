"""Topics of any cluster that a test asks by librdkafka: made, and written into."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import wait_until

TO_THE_END: Final[Mapping[str, str | int]] = {
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": 20,
}
"""Of a reader that stops at the end of a partition. A broker holds its last fetch this long, for
more records to come, and half a second else."""
BROKER_DEADLINE_S = 90.0
PRODUCE_DEADLINE_S = 120.0
Entry = tuple[bytes, bytes | None]
ANY_PARTITION = -1  # librdkafka's own default: the partitioner chooses


def create_topic(
    bootstrap: str,
    name: str,
    assignment: Sequence[Sequence[int]],
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with these replicas a partition, and wait for its leaders."""
    admin = AdminClient({"log_level": 0, "bootstrap.servers": bootstrap})
    topic = NewTopic(
        name,
        num_partitions=len(assignment),
        replica_assignment=[list(replicas) for replicas in assignment],
        config=dict(config or {}),
    )
    made = admin.create_topics([topic], request_timeout=BROKER_DEADLINE_S)
    made[name].result(timeout=BROKER_DEADLINE_S)
    wait_until(
        lambda: _led_partitions(admin, name) == len(assignment),
        BROKER_DEADLINE_S,
        f"every partition of {name} has a leader",
    )


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Delete topics, and wait until the controller has."""
    admin = AdminClient({"log_level": 0, "bootstrap.servers": bootstrap})
    for gone in admin.delete_topics(list(names), request_timeout=BROKER_DEADLINE_S).values():
        gone.result(timeout=BROKER_DEADLINE_S)


def _led_partitions(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, timeout=BROKER_DEADLINE_S).topics[topic].partitions
    return sum(1 for partition in partitions.values() if partition.leader >= 0)


def records_of(bootstrap: str, topic: str, *, committed: bool = True) -> list[Entry]:
    """Key and value of each record of partition 0, in the log's order.

    A transaction that is open as this begins counts as it ends: what a reader is given lags behind.
    """
    clients: dict[str, Any] = {"log_level": 0, "bootstrap.servers": bootstrap, "group.id": "unused"}
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    all_of_it = Consumer({**clients, "isolation.level": "read_uncommitted"})
    _, end = all_of_it.get_watermark_offsets(place, timeout=BROKER_DEADLINE_S)
    all_of_it.close()
    level = "read_committed" if committed else "read_uncommitted"
    reader = Consumer({**clients, **TO_THE_END, "isolation.level": level})
    reader.assign([place])
    found: list[Entry] = []

    def at_the_end() -> bool:
        message = reader.poll(0.1)
        if message is None:
            return False
        if (error := message.error()) is None:
            found.append((message.key() or b"", message.value()))
            return False
        return error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= end

    try:
        wait_until(at_the_end, BROKER_DEADLINE_S, f"{topic} is read to offset {end}")
    finally:
        reader.close()
    return found


def produce(
    bootstrap: str, topic: str, count: int, size_bytes: int, partition: int | None = None
) -> None:
    """Write `count` records of `size_bytes` each, acknowledged by every in-sync replica."""
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20}
    )
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    value = bytes(size_bytes)
    for _ in range(count):
        _send(producer, topic, value, ANY_PARTITION if partition is None else partition, delivered)
    unsent = producer.flush(PRODUCE_DEADLINE_S)
    if unsent or errors:
        raise AssertionError(f"{topic}: {unsent} records unsent, errors {errors[:3]}")


def _send(
    producer: Producer,
    topic: str,
    value: bytes,
    partition: int,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Queue one record; a full queue is emptied some way first."""
    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
