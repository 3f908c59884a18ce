"""Transactions over sockets: every version of their APIs, and unmodified producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.coordinator.records import TransactionState
from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.embedded.background import Running
from tests.support.embedded.coordinators import DEADLINE_S, Wire, create_topic, small_cluster
from tests.support.waiting import wait_until

OFFSET_FETCH, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 9, 22, 24, 25, 26, 28
FENCED = "_FENCED"
TRANSACTION, GROUP = 1, 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with small_cluster() as running:
        yield running


@pytest.fixture
def wire(cluster: Running) -> Iterator[Wire]:
    client = Wire(cluster)
    yield client
    client.close()


class TransactionWire:
    """One transactional id's coordinator, asked at one version or the last that there is."""

    def __init__(self, wire: Wire, name: str, version: int) -> None:
        self.wire = wire
        self.name = name
        self.version = version
        self.broker = wire.coordinator(name, TRANSACTION)
        self.ids: dict[str, int] = {}

    def at(self, key: int) -> int:
        return min(self.version, KAFKA_APIS[key].max_version)

    def ask(self, key: int, **fields: Any) -> Any:
        asked = {"transactional_id": self.name, **self.ids, **fields}
        return self.wire.ask(self.broker, key, self.at(key), **asked)

    def init(self) -> int:
        asked = {"transactional_id": self.name, "transaction_timeout_ms": 1_000}
        answer = self.wire.ask(self.broker, INIT, self.at(INIT), **asked)
        self.ids = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        return int(answer.error_code)

    def add(self, topic: str, *partitions: int, verify: bool = False) -> list[int]:
        at = self.at(ADD_PARTITIONS)
        topics = [(topic, list(partitions))]
        if at < 4:
            old: dict[str, Any] = {
                f"v3_and_below_{name}": value for name, value in self.ids.items()
            }
            old |= {"v3_and_below_transactional_id": self.name, "v3_and_below_topics": topics}
            answer = self.wire.ask(self.broker, ADD_PARTITIONS, at, **old)
            found = answer.results_by_topic_v3_and_below
        else:
            made = KAFKA_APIS[ADD_PARTITIONS].request.AddPartitionsToTxnTransaction
            one = made(version=at, transactional_id=self.name, verify_only=verify, **self.ids)
            one.topics = topics
            answer = self.wire.ask(self.broker, ADD_PARTITIONS, at, transactions=[one])
            found = answer.results_by_transaction[0].topic_results
        results = {p.partition_index: p.partition_error_code for p in found[0].results_by_partition}
        return [results[number] for number in partitions]

    def commit_offset(self, group: str, offset: int) -> int:
        """TxnOffsetCommit of `orders-0`, at the group's coordinator."""
        made = KAFKA_APIS[COMMIT_OFFSETS].request.TxnOffsetCommitRequestTopic
        entry = made.TxnOffsetCommitRequestPartition
        at = self.at(COMMIT_OFFSETS)
        one = entry(version=at, partition_index=0, committed_offset=offset, committed_metadata=None)
        asked = {
            "transactional_id": self.name,
            "group_id": group,
            "topics": [made(version=at, name="orders", partitions=[one])],
            **self.ids,
        }
        answer = self.wire.ask(self.wire.coordinator(group), COMMIT_OFFSETS, at, **asked)
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str, *, stable: bool) -> tuple[int, int]:
        """Offset and error of `orders-0`."""
        asked = {"group_id": group, "topics": [("orders", [0])], "require_stable": stable}
        broker = self.wire.coordinator(group)
        answer = self.wire.ask(broker, OFFSET_FETCH, 7, **asked)
        found = answer.topics[0].partitions[0]
        return found.committed_offset, found.error_code


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_runs_in_every_version(wire: Wire, version: int) -> None:
    one = TransactionWire(wire, f"versions-{version}", version)
    group = f"group-{version}"
    assert one.init() == CoordinatorCode.NONE
    assert one.add("orders", 0, 9) == [
        CoordinatorCode.OPERATION_NOT_ATTEMPTED,
        CoordinatorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert one.add("orders", 0, 1) == [CoordinatorCode.NONE, CoordinatorCode.NONE]
    if version >= 4:
        assert one.add("orders", 0, 1, verify=True) == [CoordinatorCode.NONE, CoordinatorCode.NONE]
        assert one.add("orders", 1, 2, verify=True) == [
            CoordinatorCode.OPERATION_NOT_ATTEMPTED,
            CoordinatorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        one.ask(END, committed=False)
        assert one.init() == CoordinatorCode.NONE
        assert one.add("orders", 0, verify=True) == [CoordinatorCode.TRANSACTION_ABORTABLE]
        assert one.add("orders", 0) == [CoordinatorCode.NONE]
    if version < 5:
        assert one.commit_offset(group, 4) == CoordinatorCode.INVALID_TXN_STATE
        assert one.ask(ADD_OFFSETS, group_id=group).error_code == CoordinatorCode.NONE
    assert one.commit_offset(group, 4) == CoordinatorCode.NONE
    assert one.committed(group, stable=True) == (-1, CoordinatorCode.UNSTABLE_OFFSET_COMMIT)
    assert one.committed(group, stable=False) == (-1, CoordinatorCode.NONE)
    ended = one.ask(END, committed=True)
    assert ended.error_code == CoordinatorCode.NONE
    assert one.committed(group, stable=True) == (4, CoordinatorCode.NONE)
    if version >= 5:
        assert ended.producer_epoch == one.ids["producer_epoch"] + 1
    old = dict(one.ids)
    assert one.init() == CoordinatorCode.NONE
    one.ids = old
    fenced = {22: 4, 24: 2, 25: 2, 26: 2}
    said = {
        key: CoordinatorCode.PRODUCER_FENCED
        if one.at(key) >= since
        else CoordinatorCode.INVALID_PRODUCER_EPOCH
        for key, since in fenced.items()
    }
    assert one.add("orders", 0) == [said[ADD_PARTITIONS]]
    assert one.ask(ADD_OFFSETS, group_id=group).error_code == said[ADD_OFFSETS]
    assert one.ask(END, committed=True).error_code == said[END]
    assert one.commit_offset(group, 5) == CoordinatorCode.INVALID_PRODUCER_EPOCH
    if version >= 3:
        assert one.ask(INIT, transaction_timeout_ms=1_000).error_code == said[INIT]


def test_only_the_coordinator_answers(wire: Wire) -> None:
    one = TransactionWire(wire, "elsewhere", 3)
    one.broker = next(broker for broker in wire.brokers if broker != one.broker)
    assert one.init() == CoordinatorCode.NOT_COORDINATOR
    assert one.add("orders", 0) == [CoordinatorCode.NOT_COORDINATOR]
    assert one.ask(ADD_OFFSETS, group_id="g").error_code == CoordinatorCode.NOT_COORDINATOR
    assert one.ask(END, committed=True).error_code == CoordinatorCode.NOT_COORDINATOR
    one.version = 4
    assert one.add("orders", 0) == [CoordinatorCode.NOT_COORDINATOR]


def test_producer_ids_are_given_once(cluster: Running, wire: Wire) -> None:
    asked = {"transactional_id": None, "transaction_timeout_ms": 0}
    given = [wire.ask(broker, INIT, 4, **asked) for broker in wire.brokers for _ in range(3)]
    assert len({answer.producer_id for answer in given}) == 9
    assert {answer.producer_epoch for answer in given} == {0}
    half = {"producer_id": 5, "producer_epoch": -1, **asked, "transactional_id": "half"}
    broker = wire.coordinator("half", TRANSACTION)
    assert wire.ask(broker, INIT, 4, **half).error_code == CoordinatorCode.INVALID_REQUEST
    empty = {**asked, "transactional_id": ""}
    assert wire.ask(broker, INIT, 4, **empty).error_code == CoordinatorCode.INVALID_REQUEST


def test_a_transaction_that_takes_too_long_is_aborted(cluster: Running, wire: Wire) -> None:
    one = TransactionWire(wire, "slow", 3)
    one.init()
    assert one.add("orders", 0) == [CoordinatorCode.NONE]

    def state(running: EmbeddedCluster) -> int:
        known = running.transactions.known("slow")
        return -1 if known is None else known.state

    aborted = TransactionState.COMPLETE_ABORT
    wait_until(lambda: cluster.call(state) == aborted, DEADLINE_S, "it is aborted")
    assert one.ask(END, committed=True).error_code == CoordinatorCode.PRODUCER_FENCED


# --- unmodified producers


def producer_of(cluster: Running, name: str) -> Producer:
    config = {
        "log_level": 0,
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": name,
    }
    producer = Producer({**config, "linger.ms": 0})
    producer.init_transactions(DEADLINE_S)
    return producer


@contextmanager
def reading(cluster: Running, topic: str, isolation: str) -> Iterator[Callable[[], list[str]]]:
    """Gives what a consumer of partition 0 has read up to now."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []

    def read() -> list[str]:
        for message in consumer.consume(100, timeout=0.05):
            assert message.error() is None
            found.append((message.value() or b"").decode())
        return found

    try:
        yield read
    finally:
        consumer.close()


def test_only_what_was_committed_is_read(cluster: Running) -> None:
    create_topic(cluster, "books", 1)
    producer = producer_of(cluster, "books")
    with (
        reading(cluster, "books", "read_committed") as committed,
        reading(cluster, "books", "read_uncommitted") as everything,
    ):
        producer.begin_transaction()
        producer.produce("books", "a", partition=0)
        producer.flush(DEADLINE_S)
        wait_until(lambda: everything() == ["a"], DEADLINE_S, "it is written")
        assert committed() == []
        producer.commit_transaction(DEADLINE_S)
        wait_until(lambda: committed() == ["a"], DEADLINE_S, "it is committed")
        producer.begin_transaction()
        producer.produce("books", "b", partition=0)
        producer.flush(DEADLINE_S)
        producer.abort_transaction(DEADLINE_S)
        producer.begin_transaction()
        producer.produce("books", "c", partition=0)
        producer.commit_transaction(DEADLINE_S)
        wait_until(lambda: "c" in committed(), DEADLINE_S, "the third is committed")
        wait_until(lambda: len(everything()) == 3, DEADLINE_S, "all are read")
        assert (committed(), everything()) == (["a", "c"], ["a", "b", "c"])


def test_a_zombie_is_fenced_and_its_transaction_aborted(cluster: Running) -> None:
    create_topic(cluster, "fenced", 1)
    zombie = producer_of(cluster, "fenced")
    zombie.begin_transaction()
    zombie.produce("fenced", "zombie", partition=0)
    zombie.flush(DEADLINE_S)
    living = producer_of(cluster, "fenced")
    living.begin_transaction()
    living.produce("fenced", "living", partition=0)
    living.commit_transaction(DEADLINE_S)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(DEADLINE_S)
    assert fenced.value.args[0].name() == FENCED
    with reading(cluster, "fenced", "read_committed") as committed:
        wait_until(lambda: committed() != [], DEADLINE_S, "something is committed")
        assert committed() == ["living"]


def test_offsets_and_records_are_committed_together(cluster: Running) -> None:
    create_topic(cluster, "copied", 1)
    producer = producer_of(cluster, "copied")
    at = TopicPartition("orders", 0, 3)
    member = Consumer(
        {"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers, "group.id": "copying"}
    )
    try:
        for commit in (False, True):
            producer.begin_transaction()
            producer.produce("copied", "x", partition=0)
            about = member.consumer_group_metadata()
            producer.send_offsets_to_transaction([at], about, DEADLINE_S)
            if commit:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.abort_transaction(DEADLINE_S)
            [found] = member.committed([TopicPartition("orders", 0)], DEADLINE_S)
            assert found.offset == (3 if commit else -1001)
    finally:
        member.close()


def test_kafka_pythons_producer_commits_and_aborts(cluster: Running) -> None:
    create_topic(cluster, "pythons", 1)
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), transactional_id="pythons"
    )
    try:
        producer.init_transactions()
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin_transaction()
            producer.send("pythons", value, partition=0)
            producer.flush()
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close()
    with reading(cluster, "pythons", "read_committed") as committed:
        wait_until(lambda: committed() == ["a", "c"], DEADLINE_S, "both are read")
