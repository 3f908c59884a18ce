"""Consumer groups over sockets: every version of their APIs, and unmodified consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.embedded.background import Running
from tests.support.embedded.coordinators import (
    CLIENT_ID,
    DEADLINE_S,
    Wire,
    create_topic,
    small_cluster,
)
from tests.support.waiting import wait_until

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = (
    8,
    9,
    10,
    11,
    12,
    13,
    14,
)
DESCRIBE, LIST, DELETE = 15, 16, 42
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""A consumer's metadata: it wants the topic `orders`."""
SESSION_MS, REBALANCE_MS = 6_000, 10_000
VERSIONS = range(max(api.max_version for api in KAFKA_APIS.values() if 8 <= api.key <= 16) + 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with small_cluster() as running:
        yield running


@pytest.fixture
def wire(cluster: Running) -> Iterator[Wire]:
    client = Wire(cluster)
    yield client
    client.close()


class GroupWire:
    """One group's coordinator, asked at one version or the next that there is."""

    def __init__(self, wire: Wire, group: str, version: int) -> None:
        self.wire = wire
        self.group = group
        self.version = version
        self.broker = wire.coordinator(group)

    def at(self, key: int) -> int:
        api = KAFKA_APIS[key]
        return min(max(self.version, api.min_version), api.max_version)

    def ask(self, key: int, **fields: Any) -> Any:
        return self.wire.ask(self.broker, key, self.at(key), **fields)

    def ask_group(self, key: int, **fields: Any) -> Any:
        return self.ask(key, group_id=self.group, **fields)

    def joining(self, member_id: str = "") -> dict[str, Any]:
        return {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [("range", SUBSCRIPTION)],
        }

    def joined(self) -> Any:
        answer = self.ask(JOIN, **self.joining())
        if answer.error_code == CoordinatorCode.MEMBER_ID_REQUIRED:
            assert self.at(JOIN) >= 4
            answer = self.ask(JOIN, **self.joining(answer.member_id))
        assert answer.error_code == CoordinatorCode.NONE
        return answer

    def committed(self) -> tuple[int, str, int]:
        """Offset, metadata and error of `orders-0`."""
        if self.at(OFFSET_FETCH) >= 8:
            more = (None, -1) if self.at(OFFSET_FETCH) >= 9 else ()
            asked = [(self.group, *more, [("orders", [0])])]
            group = self.ask(OFFSET_FETCH, groups=asked).groups[0]
            assert group.error_code == CoordinatorCode.NONE
            found = group.topics[0].partitions[0]
        else:
            answer = self.ask_group(OFFSET_FETCH, topics=[("orders", [0])])
            found = answer.topics[0].partitions[0]
        return found.committed_offset, found.metadata, found.error_code

    def commit(self, offset: int, joined: Any, topic: str = "orders") -> int:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "note",
        }
        made = KAFKA_APIS[OFFSET_COMMIT].request.OffsetCommitRequestTopic
        entry = made.OffsetCommitRequestPartition
        version = self.at(OFFSET_COMMIT)
        partitions = [entry(version=version, **partition)]
        answer = self.ask_group(
            OFFSET_COMMIT,
            generation_id_or_member_epoch=joined.generation_id,
            member_id=joined.member_id,
            topics=[made(version=version, name=topic, partitions=partitions)],
        )
        return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_lives_in_every_version(wire: Wire, version: int) -> None:
    group = GroupWire(wire, f"versions-{version}", version)
    joined = group.joined()
    assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
    assert joined.member_id.startswith(f"{CLIENT_ID}-")
    assert [bytes(member.metadata) for member in joined.members] == [SUBSCRIPTION]
    who = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    early = group.commit(1, joined)
    assert early == CoordinatorCode.REBALANCE_IN_PROGRESS
    given = {"assignments": [(joined.member_id, b"all")], **who}
    if group.at(SYNC) >= 5:
        unnamed = group.ask_group(SYNC, **given)
        assert unnamed.error_code == CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL
        given |= {"protocol_type": "consumer", "protocol_name": "range"}
    synced = group.ask_group(SYNC, **given)
    assert (synced.error_code, bytes(synced.assignment)) == (CoordinatorCode.NONE, b"all")
    assert group.ask_group(HEARTBEAT, **who).error_code == CoordinatorCode.NONE
    assert group.committed() == (-1, "", CoordinatorCode.NONE)
    assert group.commit(5, joined) == CoordinatorCode.NONE
    assert group.commit(5, joined, topic="nowhere") == CoordinatorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert group.committed() == (5, "note", CoordinatorCode.NONE)
    asked = {"groups": [group.group], "include_authorized_operations": version % 2 == 0}
    described = group.ask(DESCRIBE, **asked).groups[0]
    if group.at(DESCRIBE) >= 3:
        operations = {3, 6, 8, 10, 11} if version % 2 == 0 else None
        assert described.authorized_operations == operations
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    [member] = described.members
    assert (member.client_id, member.client_host) == (CLIENT_ID, "/127.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (
        SUBSCRIPTION,
        b"all",
    )
    listed = {one.group_id: one for one in group.ask(LIST).groups}
    assert listed[group.group].protocol_type == "consumer"
    assert group.ask(DELETE, groups_names=[group.group]).results[0].error_code == 68
    leaving = {"member_id": joined.member_id} if group.at(LEAVE) < 3 else {}
    members = [KAFKA_APIS[LEAVE].request.MemberIdentity(member_id=joined.member_id)]
    left = group.ask_group(LEAVE, **(leaving or {"members": members}))
    assert left.error_code == CoordinatorCode.NONE
    assert [one.error_code for one in left.members or ()] in ([], [CoordinatorCode.NONE])
    assert (
        group.ask(DELETE, groups_names=[group.group]).results[0].error_code == CoordinatorCode.NONE
    )
    gone = group.ask(DESCRIBE, groups=[group.group]).groups[0]
    assert gone.group_state == "Dead"
    assert gone.error_code == (
        CoordinatorCode.GROUP_ID_NOT_FOUND if group.at(DESCRIBE) >= 6 else CoordinatorCode.NONE
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_coordinator_answers(wire: Wire, version: int) -> None:
    group = GroupWire(wire, "elsewhere", version)
    for at in {min(version, 6)}:
        keys = {"coordinator_keys": ["elsewhere"]} if at >= 4 else {"key": "elsewhere"}
        found = wire.ask(wire.brokers[-1], FIND_COORDINATOR, at, **keys)
        first = found.coordinators[0] if at >= 4 else found
        assert (first.error_code, first.node_id) == (CoordinatorCode.NONE, group.broker)
    group.broker = next(one for one in wire.brokers if one != group.broker)
    who = {"generation_id": 1, "member_id": "m"}
    assert group.ask(JOIN, **group.joining()).error_code == CoordinatorCode.NOT_COORDINATOR
    assert (
        group.ask_group(SYNC, assignments=[], **who).error_code == CoordinatorCode.NOT_COORDINATOR
    )
    assert group.ask_group(HEARTBEAT, **who).error_code == CoordinatorCode.NOT_COORDINATOR
    described = group.ask(DESCRIBE, groups=["elsewhere"]).groups
    assert [one.error_code for one in described] == [CoordinatorCode.NOT_COORDINATOR]
    deleted = group.ask(DELETE, groups_names=["elsewhere"]).results
    assert [one.error_code for one in deleted] == [CoordinatorCode.NOT_COORDINATOR]
    assert "elsewhere" not in [one.group_id for one in group.ask(LIST).groups]
    if 2 <= group.at(OFFSET_FETCH) < 8:
        answer = group.ask_group(OFFSET_FETCH, topics=None)
        assert answer.error_code == CoordinatorCode.NOT_COORDINATOR


def test_groups_are_listed_by_state_and_type(wire: Wire) -> None:
    group = GroupWire(wire, "filtered", 5)
    group.joined()

    def listed(states: Sequence[str] = (), types: Sequence[str] = ()) -> list[str]:
        answer = group.ask(LIST, states_filter=list(states), types_filter=list(types))
        return [one.group_id for one in answer.groups if one.group_id == group.group]

    assert listed() == listed(["completingREBALANCE", "Empty"]) == listed((), ["Classic"])
    assert listed() == [group.group]
    assert listed(["Stable"]) == listed((), ["consumer"]) == []


def test_null_topics_are_all_topics(wire: Wire) -> None:
    group = GroupWire(wire, "all-topics", 7)
    nobody = KAFKA_APIS[JOIN].response(version=7, generation_id=-1, member_id="")
    assert group.commit(9, nobody) == CoordinatorCode.NONE
    answer = group.ask_group(OFFSET_FETCH, topics=None, require_stable=True)
    [topic] = answer.topics
    assert (topic.name, [p.committed_offset for p in topic.partitions]) == ("orders", [9])


# --- unmodified consumers


@contextmanager
def consuming(cluster: Running, group: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that notices immediately when it has to join again."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": 500,
            "fetch.wait.max.ms": 50,
            **more,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def numbers(consumer: Consumer) -> set[int]:
    """The partitions that a consumer has, after it has looked for news."""
    consumer.poll(0.01)
    return {one.partition for one in consumer.assignment()}


def values(consumer: Consumer, count: int) -> list[str]:
    """The next values."""
    found: list[str] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), timeout=0.1):
            assert message.error() is None
            found.append((message.value() or b"").decode())
        return len(found) >= count

    wait_until(enough, DEADLINE_S, f"{count} records are read")
    return found


def produce(cluster: Running, topic: str, wanted: Sequence[str]) -> None:
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    )
    for number, value in enumerate(wanted):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0


def test_two_consumers_share_and_one_leaves(cluster: Running) -> None:
    create_topic(cluster, "shared", 2)
    with consuming(cluster, "sharing", "shared") as first:
        wait_until(lambda: numbers(first) == {0, 1}, DEADLINE_S, "the first has both")
        with consuming(cluster, "sharing", "shared") as second:
            wait_until(
                lambda: (
                    sorted([*numbers(first), *numbers(second)]) == [0, 1]
                    and numbers(second) != set()
                ),
                DEADLINE_S,
                "each has one",
            )
            admin = AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers})
            described = admin.describe_consumer_groups(["sharing"])["sharing"].result()
            assert described.state == ConsumerGroupState.STABLE
            assert len(described.members) == 2
            assigned = [m.assignment.topic_partitions for m in described.members]
            assert sorted(one.partition for part in assigned for one in part) == [0, 1]
        wait_until(lambda: numbers(first) == {0, 1}, DEADLINE_S, "the first has both again")


def test_a_consumer_resumes_where_its_group_committed(cluster: Running) -> None:
    create_topic(cluster, "resumed", 2)
    produce(cluster, "resumed", ["a", "b"])
    with consuming(cluster, "resuming", "resumed") as first:
        assert sorted(values(first, 2)) == ["a", "b"]
        first.commit(asynchronous=False)
    produce(cluster, "resumed", ["c", "d"])
    with consuming(cluster, "resuming", "resumed") as second:
        assert sorted(values(second, 2)) == ["c", "d"]
        at = second.committed([TopicPartition("resumed", n) for n in (0, 1)], DEADLINE_S)
        assert [one.offset for one in at] == [1, 1]
    admin = AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_consumer_groups(["resuming"])["resuming"].result()


def test_a_static_consumer_comes_back_to_its_partitions(cluster: Running) -> None:
    create_topic(cluster, "static", 2)
    named = {"group.instance.id": "one"}
    with consuming(cluster, "statics", "static", **named) as first:
        wait_until(lambda: numbers(first) == {0, 1}, DEADLINE_S, "it has both")
    with consuming(cluster, "statics", "static", **named) as again:
        wait_until(lambda: numbers(again) == {0, 1}, DEADLINE_S, "it has both again")
    generation = cluster.call(lambda c: c.groups.described("statics"))
    assert generation is not None
    assert [member.instance_id for member in generation.members] == ["one"]


def test_kafka_pythons_consumer_reads_and_commits(cluster: Running) -> None:
    create_topic(cluster, "pythons", 2)
    produce(cluster, "pythons", ["a", "b", "c"])
    consumer = KafkaConsumer(
        "pythons",
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        group_id="pythons",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        session_timeout_ms=SESSION_MS,
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )
    try:
        read = sorted(next(consumer).value.decode() for _ in range(3))
        assert read == ["a", "b", "c"]
        consumer.commit()
    finally:
        consumer.close()
    committed = cluster.call(lambda c: dict(c.groups.offsets.committed("pythons")))
    assert sum(one.offset for one in committed.values()) == 3


def test_a_group_moves_when_its_coordinator_stops(cluster: Running, wire: Wire) -> None:
    create_topic(cluster, "moving", 2)
    broker = wire.coordinator("movers")

    def stop(running: EmbeddedCluster) -> Any:
        return running.stop_broker(broker)

    def start(running: EmbeddedCluster) -> Any:
        return running.start_broker(broker)

    with consuming(cluster, "movers", "moving") as consumer:
        wait_until(lambda: numbers(consumer) == {0, 1}, DEADLINE_S, "it has both")
        cluster.call(stop)
        try:
            produce(cluster, "moving", ["a", "b"])
            assert sorted(values(consumer, 2)) == ["a", "b"]
            consumer.commit(asynchronous=False)
        finally:
            cluster.call(start)
    assert wire.coordinator("movers") == broker
