"""Records, groups, transactions and topics through ordinary clients, on all three clusters.

librdkafka is the client; the same body runs on the embedded cluster and on real Kafka.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.support.clusters import ContractCluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 30.0
START_MS = 1_700_000_000_000

_numbers = itertools.count()


def fresh(what: str) -> str:
    """A name that no other test has."""
    return f"data-{what}-{next(_numbers)}"


def topic_on(cluster: ContractCluster, what: str, *replicas: Sequence[int]) -> str:
    name = fresh(what)
    create_topic(cluster.bootstrap_servers, name, replicas)
    return name


def producer_of(cluster: ContractCluster, **settings: object) -> Producer:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "linger.ms": 1}
    return Producer(config | {name.replace("_", "."): value for name, value in settings.items()})


@contextmanager
def consumer_of(cluster: ContractCluster, group: str, **settings: object) -> Iterator[Consumer]:
    config: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "log_level": 0,
    }
    config |= {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(config)
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` records."""
    found: list[Message] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) >= count

    wait_until(enough, DEADLINE_S, f"{count} records are read")
    return found


def read_all(cluster: ContractCluster, topic: str, count: int, **settings: object) -> list[Message]:
    with consumer_of(cluster, fresh("reader"), **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return take(consumer, count)


def failure(action: Callable[[], object]) -> int:
    """The code of Kafka's that an action fails with, or 0."""
    try:
        action()
    except KafkaException as error:
        return _code(error)
    return 0


def _code(error: KafkaException) -> int:
    code: int = error.args[0].code()
    return code


# Records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(cluster: ContractCluster, codec: str) -> None:
    topic = topic_on(cluster, codec, [1, 2, 3])
    producer = producer_of(cluster, acks="all", compression_type=codec)
    sent: list[tuple[bytes | None, bytes, list[tuple[str, str | bytes | None]]]] = [
        (f"k{n}".encode() if n % 3 else None, b"v" * (n % 50), [("h", str(n).encode()), ("e", b"")])
        for n in range(500)
    ]
    for n, (key, value, headers) in enumerate(sent):
        producer.produce(topic, value, key, 0, timestamp=START_MS + n, headers=headers)
    assert producer.flush(DEADLINE_S) == 0
    found = read_all(cluster, topic, len(sent))
    assert [(m.key(), m.value(), m.headers()) for m in found] == sent
    assert [m.offset() for m in found] == list(range(len(sent)))
    assert {m.timestamp()[0] for m in found} == {TIMESTAMP_CREATE_TIME}
    assert [m.timestamp()[1] for m in found] == [START_MS + n for n in range(len(sent))]


def test_watermarks_and_offsets_by_time(cluster: ContractCluster) -> None:
    topic = topic_on(cluster, "times", [2, 1])
    producer = producer_of(cluster, acks="all")
    for n in range(100):
        producer.produce(topic, b"x", None, 0, timestamp=START_MS + n * 1000)
    assert producer.flush(DEADLINE_S) == 0
    with consumer_of(cluster, fresh("times")) as consumer:
        part = TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(part, DEADLINE_S) == (0, 100)
        asked = [TopicPartition(topic, 0, START_MS + ms) for ms in (0, 41_500, 99_000)]
        found = [consumer.offsets_for_times([one], DEADLINE_S)[0].offset for one in asked]
        assert found == [0, 42, 99]
        late = consumer.offsets_for_times([TopicPartition(topic, 0, START_MS * 2)], DEADLINE_S)
        assert late[0].offset == -1


def test_deleted_records_are_gone(cluster: ContractCluster) -> None:
    topic = topic_on(cluster, "deleted", [1, 2])
    producer = producer_of(cluster, acks="all")
    for n in range(50):
        producer.produce(topic, str(n).encode(), None, 0)
    assert producer.flush(DEADLINE_S) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    [(_, future)] = admin.delete_records([TopicPartition(topic, 0, 20)]).items()
    assert future.result(DEADLINE_S).low_watermark == 20
    found = read_all(cluster, topic, 30)
    assert [m.offset() for m in found] == list(range(20, 50))
    [(_, beyond)] = admin.delete_records([TopicPartition(topic, 0, 51)]).items()
    assert failure(lambda: beyond.result(DEADLINE_S)) == KafkaError.OFFSET_OUT_OF_RANGE


def test_what_a_producer_may_not_do(cluster: ContractCluster) -> None:
    topic = topic_on(cluster, "limits", [1, 2])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    _set(admin, topic, "max.message.bytes", "1000")
    errors: list[int] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        errors.append(error.code() if error else 0)

    def refused(size: int) -> int:
        errors.clear()
        producer = producer_of(cluster, acks="all", retries=0)
        producer.produce(topic, b"x" * size, None, 0, on_delivery=told)
        assert producer.flush(DEADLINE_S) == 0
        return errors[0]

    wait_until(lambda: refused(5000) != 0, DEADLINE_S, "the limit holds")
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert refused(100) == 0
    _set(admin, topic, "min.insync.replicas", "3")
    _set(admin, topic, "max.message.bytes", "50")
    wait_until(lambda: refused(100) != 0, DEADLINE_S, "both limits hold")
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
    # Of two replicas no three can be in sync; Kafka then asks for all there are.
    _set(admin, topic, "max.message.bytes", "1000")
    wait_until(lambda: refused(100) == 0, DEADLINE_S, "two replicas are enough")


def _set(admin: AdminClient, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    [(_, future)] = admin.incremental_alter_configs([resource]).items()
    future.result(DEADLINE_S)


# Transactions


def test_only_what_was_committed_is_read(cluster: ContractCluster) -> None:
    topic = topic_on(cluster, "txn", [1, 2])
    producer = producer_of(cluster, transactional_id=fresh("tid"))
    producer.init_transactions(DEADLINE_S)
    for kind in ("kept", "aborted", "kept"):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, f"{kind}-{n}".encode(), None, 0)
        if kind == "kept":
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)
    committed = read_all(cluster, topic, 20, isolation_level="read_committed")
    assert {(m.value() or b"").split(b"-")[0] for m in committed} == {b"kept"}
    everything = read_all(cluster, topic, 30, isolation_level="read_uncommitted")
    # Each transaction ends with a marker, which has an offset and is given to nobody.
    assert [m.offset() for m in everything] == [*range(10), *range(11, 21), *range(22, 32)]


def test_a_zombie_producer_is_fenced(cluster: ContractCluster) -> None:
    topic = topic_on(cluster, "fenced", [1, 2])
    transactional_id = fresh("tid")
    zombie = producer_of(cluster, transactional_id=transactional_id)
    zombie.init_transactions(DEADLINE_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"lost", None, 0)
    zombie.flush(DEADLINE_S)
    successor = producer_of(cluster, transactional_id=transactional_id)
    successor.init_transactions(DEADLINE_S)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(DEADLINE_S)
    assert _code(caught.value) in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    successor.begin_transaction()
    successor.produce(topic, b"kept", None, 0)
    successor.commit_transaction(DEADLINE_S)
    found = read_all(cluster, topic, 1, isolation_level="read_committed")
    assert found[0].value() == b"kept"


# Groups


def test_a_group_goes_on_where_it_committed(cluster: ContractCluster) -> None:
    topic, group = topic_on(cluster, "resume", [1], [2]), fresh("group")
    producer = producer_of(cluster, acks="all")
    for n in range(20):
        producer.produce(topic, str(n).encode(), None, 0)
    assert producer.flush(DEADLINE_S) == 0
    with consumer_of(cluster, group) as first:
        first.subscribe([topic])
        read = take(first, 8)
        first.commit(message=read[-1], asynchronous=False)
    with consumer_of(cluster, group) as second:
        second.subscribe([topic])
        offsets = [m.offset() for m in take(second, 12)]
        [held] = second.committed([TopicPartition(topic, 0)], DEADLINE_S)
    assert offsets == list(range(8, 20))
    assert held.offset == 8


def test_a_group_shares_its_partitions(cluster: ContractCluster) -> None:
    topic, group = topic_on(cluster, "share", [1], [2], [3], [1]), fresh("group")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def share(*consumers: Consumer) -> list[int]:
        for consumer in consumers:
            consumer.poll(0.05)
        return sorted(len(consumer.assignment()) for consumer in consumers)

    with consumer_of(cluster, group) as first:
        first.subscribe([topic])
        wait_until(lambda: share(first) == [4], DEADLINE_S, "one member has all")
        with consumer_of(cluster, group) as second:
            second.subscribe([topic])
            wait_until(lambda: share(first, second) == [2, 2], DEADLINE_S, "two members share")
            described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
            assert len(described.members) == 2
            assert described.state.name == "STABLE"
            assert failure(lambda: _delete_group(admin, group)) == KafkaError.NON_EMPTY_GROUP
        wait_until(lambda: share(first) == [4], DEADLINE_S, "the member that is left has all")
    listed = admin.list_consumer_groups().result(DEADLINE_S).valid
    assert group in {one.group_id for one in listed}
    wait_until(lambda: failure(lambda: _delete_group(admin, group)) == 0, DEADLINE_S, "it is gone")
    assert failure(lambda: _delete_group(admin, group)) == KafkaError.GROUP_ID_NOT_FOUND


def _delete_group(admin: AdminClient, group: str) -> None:
    admin.delete_consumer_groups([group])[group].result(DEADLINE_S)


# Topics


def test_topics_that_cannot_be_made(cluster: ContractCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    there = topic_on(cluster, "there", [1])
    asked = {
        there: NewTopic(there, num_partitions=1, replication_factor=1),
        "no/such": NewTopic("no/such", num_partitions=1, replication_factor=1),
        "many": NewTopic(fresh("many"), num_partitions=1, replication_factor=9),
        "config": NewTopic(fresh("config"), num_partitions=1, config={"no.such.key": "1"}),
        "value": NewTopic(fresh("value"), num_partitions=1, config={"retention.ms": "soon"}),
        "stranger": NewTopic(fresh("stranger"), num_partitions=1, replica_assignment=[[99]]),
        "twice": NewTopic(fresh("twice"), num_partitions=1, replica_assignment=[[1, 1]]),
    }
    found = {}
    for what, topic in asked.items():
        [(_, future)] = admin.create_topics([topic]).items()
        found[what] = failure(partial(future.result, DEADLINE_S))
    assert found == {
        there: KafkaError.TOPIC_ALREADY_EXISTS,
        "no/such": KafkaError.TOPIC_EXCEPTION,
        "many": KafkaError.INVALID_REPLICATION_FACTOR,
        "config": KafkaError.INVALID_CONFIG,
        "value": KafkaError.INVALID_CONFIG,
        "stranger": KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "twice": KafkaError.INVALID_REPLICA_ASSIGNMENT,
    }


def test_partitions_are_added_and_never_taken_away(cluster: ContractCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = topic_on(cluster, "grow", [1, 2])

    def grow(to: int) -> int:
        [(_, future)] = admin.create_partitions([NewPartitions(topic, to)]).items()
        return failure(lambda: future.result(DEADLINE_S))

    assert grow(3) == 0
    assert grow(3) == grow(2) == KafkaError.INVALID_PARTITIONS

    def partitions() -> int:
        return len(admin.list_topics(topic, DEADLINE_S).topics[topic].partitions)

    wait_until(lambda: partitions() == 3, DEADLINE_S, "three partitions are there")


def test_configs_say_where_they_come_from(cluster: ContractCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    name = fresh("configured")
    new = NewTopic(name, num_partitions=1, replication_factor=1, config={"retention.ms": "123"})
    [(_, created)] = admin.create_topics([new]).items()
    created.result(DEADLINE_S)

    configs: dict[str, tuple[str, bool]] = {}

    def read() -> None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        [(_, future)] = admin.describe_configs([resource]).items()
        found = future.result(DEADLINE_S)
        configs.update({key: (entry.value, entry.is_default) for key, entry in found.items()})

    # Any broker may be asked, and not all know the topic at the same time.
    wait_until(lambda: failure(read) == 0, DEADLINE_S, "the broker that we ask knows the topic")
    assert configs["retention.ms"] == ("123", False)
    assert configs["cleanup.policy"] == ("delete", True)
    assert configs["max.message.bytes"] == ("1048588", True)
    assert configs["leader.replication.throttled.replicas"] == ("", True)


def test_a_deleted_topic_is_unknown(cluster: ContractCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = topic_on(cluster, "short-lived", [1, 2])

    def delete() -> int:
        [(_, future)] = admin.delete_topics([topic]).items()
        return failure(lambda: future.result(DEADLINE_S))

    assert delete() == 0
    assert delete() == KafkaError.UNKNOWN_TOPIC_OR_PART
