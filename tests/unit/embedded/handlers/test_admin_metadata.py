"""Metadata, DescribeCluster and DescribeTopicPartitions of the embedded brokers."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kshunt.backend.domain.cluster import partition_modes
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.shrink import delete_partitions, looked_at_ms
from kshunt.backend.embedded.controller.topics import delete_topics
from kshunt.backend.embedded.metadata.config_keys import SHRINK_INTERVAL_MS
from kshunt.backend.embedded.metadata.image_values import TopicImage
from kshunt.backend.embedded.metadata.records import PartitionModeCode, ResourceType
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.wire import kip_requests
from tests.support.embedded.controller import remove_broker
from tests.support.embedded.handlers_admin import (
    CLUSTER_ID,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPICS,
    METADATA,
    AdminCluster,
    versions,
)

UNKNOWN_ID = UUID(int=12345)
RESPONSE = KAFKA_APIS[METADATA].response
TOPIC_ANSWER = RESPONSE.MetadataResponseTopic
EVERY_VERSION = pytest.mark.parametrize("version", versions(METADATA))


def busy_cluster(*, native: bool = True) -> AdminCluster:
    """Topics of many shapes; a move, a broker and a directory that are away, a partition going."""
    cluster = AdminCluster(5, native=native)
    random = Random(3)
    shapes = ("orders", 4, 3), ("events", 150, 5), ("__consumer_offsets", 2, 1), ("x" * 249, 1, 2)
    for name, count, factor in shapes:
        lists = [random.sample(range(1, 6), factor) for _ in range(count)]
        cluster.create(name, *lists)
    cluster.create("alone", [5])
    cluster.create("shrinks", [1, 2], [2, 3], [3, 1])
    cluster.move("shrinks", 0, 3, 4)
    cluster.core.fail_log_dir(2, "/a")
    cluster.core.stop_broker(5)
    resource = ConfigResource(ResourceType.BROKER, "")
    change = ConfigChange("delete.topic.partition.enable", ConfigOp.SET, "true")
    cluster.core.commit(incremental_alter_configs(cluster.image, {resource: [change]}))
    shrinking = delete_partitions(cluster.image, {"shrinks": 2}, 0, delay_ms=60_000)
    assert cluster.core.commit(shrinking).records
    return cluster


def reference(cluster: AdminCluster, version: int, topics: Iterable[TopicImage]) -> bytes:
    """The whole answer by kafka-python's own encoder, with the seeds' modes added to it."""
    image = cluster.image
    entry = RESPONSE.MetadataResponseBroker
    brokers = [
        entry(version=version, node_id=b.id, host=b.host, port=b.port, rack=b.rack)
        for b in (image.brokers[id] for id in sorted(image.brokers))
        if not b.fenced
    ]
    answer = RESPONSE(
        version=version,
        brokers=brokers,
        cluster_id=CLUSTER_ID,
        controller_id=image.controller,
        topics=[described(cluster, version, topic) for topic in topics],
    )
    modes = {
        (topic.name, number): int(partition.mode)
        for topic in topics
        for number, partition in topic.partitions.items()
    }
    interval_ms = int(image.cluster_config(SHRINK_INTERVAL_MS))
    goes = {
        (topic.name, number): looked_at_ms(partition.deletion, interval_ms)
        for topic in topics
        for number, partition in topic.partitions.items()
        if partition.deletion is not None and partition.mode is PartitionModeCode.READ_ONLY
    }
    body = bytes(answer.encode(version=version))
    return kip_requests.add_modes(body, version, modes, goes) if cluster.world.native else body


def described(cluster: AdminCluster, version: int, topic: TopicImage) -> Any:
    made = TOPIC_ANSWER.MetadataResponsePartition
    partitions = []
    for number, partition in topic.partitions.items():
        offline = [
            broker
            for broker in partition.replicas
            if not cluster.image.is_online(broker, partition.log_dir(broker))
        ]
        # The deletion key is on where a partition is not ReadWrite.
        tells = version >= 9 or partition.mode is PartitionModeCode.READ_WRITE
        leader = partition.leader if tells else -1
        partitions.append(
            made(
                version=version,
                error_code=5 if leader == -1 else 0,
                partition_index=number,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=offline,
            )
        )
    return TOPIC_ANSWER(
        version=version,
        name=topic.name,
        topic_id=UUID(topic.topic_id),
        is_internal=topic.name.startswith("__"),
        partitions=partitions,
    )


def everything(cluster: AdminCluster, version: int) -> bytes:
    return cluster.ask_bytes(METADATA, version, topics=None if version else [])


@EVERY_VERSION
@pytest.mark.parametrize("native", [True, False])
def test_answers_are_those_of_kafka_pythons_encoder(version: int, native: bool) -> None:
    cluster = busy_cluster(native=native)
    topics = list(cluster.image.topics.values())
    modes = {p.mode for topic in topics for p in topic.partitions.values()}
    assert modes == {PartitionModeCode.READ_WRITE, PartitionModeCode.READ_ONLY}
    expected = reference(cluster, version, topics)
    assert everything(cluster, version) == expected
    assert everything(cluster, version) == expected
    some = topics[1:4]
    names = [(None, t.name) if version >= 10 else (t.name,) for t in some]
    asked = cluster.ask_bytes(METADATA, version, topics=names)
    assert asked == reference(cluster, version, some)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_is_never_outdated(seed: int) -> None:
    """Whatever happens to a cluster, in whichever order, the next answer tells it."""
    random = Random(seed)
    cluster = AdminCluster(4)
    cluster.create("first", [1, 2], [2, 3], [4, 1])
    stopped: set[int] = set()
    for step in range(40):
        happen(cluster, random, step, stopped)
        version = random.choice([1, 5, 7, 9, 12, 13])
        topics = list(cluster.image.topics.values())
        assert everything(cluster, version) == reference(cluster, version, topics), (seed, step)


def happen(cluster: AdminCluster, random: Random, step: int, stopped: set[int]) -> None:
    """One change of a cluster, or a little time."""
    names = list(cluster.image.topics)
    up = sorted(set(cluster.image.brokers) - stopped)
    match random.randrange(6):
        case 0:
            count = random.randint(1, len(up))
            cluster.create(f"t{step}", *(random.sample(up, count) for _ in range(3)))
        case 1 if names:
            name = random.choice(names)
            cluster.move(name, 0, *random.sample(sorted(cluster.image.brokers), 2))
        case 2 if len(up) > 2:
            broker = random.choice(up)
            stopped.add(broker)
            cluster.core.stop_broker(broker)
        case 3 if stopped:
            cluster.restart(stopped.pop())
        case 4 if len(names) > 1:
            cluster.core.commit(delete_topics(cluster.image, [random.choice(names)]))
        case _:
            cluster.core.advance(cluster.core.now_ms + 1_000)


def test_a_partition_without_a_leader_says_so() -> None:
    cluster = AdminCluster(3)
    cluster.create("alone", [3], [1])
    cluster.core.stop_broker(3)
    for version in (0, 4, 12):
        name = ("alone",) if version < 10 else (None, "alone")
        (topic,) = cluster.ask(METADATA, version, topics=[name]).topics
        assert [(p.error_code, p.leader_id) for p in topic.partitions] == [(5, -1), (0, 1)]
    assert [p.offline_replicas for p in topic.partitions] == [[3], []]


@pytest.mark.conforms("kip-694:mode-none", "kip-694:client-reads")
def test_the_mode_of_a_partition_whose_data_goes() -> None:
    cluster = busy_cluster()
    cluster.core.advance(cluster.core.now_ms)
    body = cluster.ask_bytes(METADATA, 12, topics=[(None, "shrinks")])
    assert kip_requests.read_modes(body, 12) == {
        ("shrinks", 2): partition_modes.PartitionMode.READ_ONLY
    }
    cluster.core.commit(delete_partitions(cluster.image, {"shrinks": 2}, 0, delay_ms=0))
    body = cluster.ask_bytes(METADATA, 12, topics=[(None, "shrinks")])
    assert kip_requests.read_modes(body, 12) == {("shrinks", 2): partition_modes.PartitionMode.NONE}
    last = RESPONSE.decode(body, version=12).topics[0].partitions[2]
    assert (last.error_code, last.leader_id) == (5, -1)


@pytest.mark.conforms("kip-694:old-clients")
@EVERY_VERSION
def test_versions_that_know_no_mode_find_no_leader_while_partitions_can_be_deleted(
    version: int,
) -> None:
    """KIP-694, Compatibility: they are kept from what they cannot interpret."""
    cluster = busy_cluster()
    name = (None, "shrinks") if version >= 10 else ("shrinks",)

    def told() -> list[tuple[int, bool]]:
        (topic,) = cluster.ask(METADATA, version, topics=[name]).topics
        return [(p.error_code, p.leader_id >= 0) for p in topic.partitions]

    fine = (0, True)
    knows = version >= 9
    assert told() == [fine, fine, fine if knows else (5, False)]
    switch(cluster, "false")
    assert told() == [fine, fine, fine]
    switch(cluster, "true")
    cluster.core.commit(delete_partitions(cluster.image, {"shrinks": 2}, 0, delay_ms=0))
    none = cluster.image.partition("shrinks", 2)
    assert none is not None
    assert none.mode is PartitionModeCode.NONE
    assert told() == [fine, fine, (5, False)]


def switch(cluster: AdminCluster, value: str) -> None:
    """Let partitions be deleted, or not."""
    resource = ConfigResource(ResourceType.BROKER, "")
    change = ConfigChange("delete.topic.partition.enable", ConfigOp.SET, value)
    cluster.core.commit(incremental_alter_configs(cluster.image, {resource: [change]}))


@EVERY_VERSION
def test_no_topics_and_all_topics(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("one", [1])
    named = cluster.ask(METADATA, version, topics=[]).topics
    assert [topic.name for topic in named] == (["one"] if version == 0 else [])
    if version:
        every = cluster.ask(METADATA, version, topics=None).topics
        assert [topic.name for topic in every] == ["one"]


@pytest.mark.parametrize("version", [4, 9, 12, 13])
def test_topics_that_there_are_not(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    names = ["nope", "known", "bad name", "", "known"]
    asked = [(None, name) if version >= 10 else (name,) for name in names]
    answer = cluster.ask(METADATA, version, topics=asked, allow_auto_topic_creation=False)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        ("known", 0, 1),
        ("nope", 3, 0),
        ("bad name", 17, 0),
        ("", 17, 0),
    ]
    assert list(cluster.image.topics) == ["known"]


def test_topics_by_id() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    known = cluster.topic_id("known")
    asked = [(UNKNOWN_ID, None), (known, None), (None, "known"), (known, "other")]
    for version in (12, 13):
        topics = cluster.ask(METADATA, version, topics=asked).topics
        assert [(t.error_code, t.name, t.topic_id) for t in topics] == [
            (100, None, UNKNOWN_ID),
            (0, "known", known),
        ]
    for version in (10, 11):
        for one in asked[:2]:
            (topic,) = cluster.ask(METADATA, version, topics=[one]).topics
            assert topic.error_code == 42
    (nameless,) = cluster.ask(METADATA, 12, topics=[(None, None)]).topics
    assert nameless.error_code == -1


@pytest.mark.parametrize("version", [1, 3, 4, 12])
def test_a_client_that_may_creates_what_it_looks_for(version: int) -> None:
    cluster = AdminCluster(static={"num.partitions": "3", "default.replication.factor": "2"})
    asked = [(None, "new")] if version >= 10 else [("new",)]
    (topic,) = cluster.ask(METADATA, version, topics=asked).topics
    assert (topic.error_code, topic.partitions) == (3, [])
    (topic,) = cluster.ask(METADATA, version, topics=asked).topics
    assert [len(p.replica_nodes) for p in topic.partitions] == [2, 2, 2]


def test_nothing_is_created_where_it_may_not_be() -> None:
    forbidden = AdminCluster(static={"auto.create.topics.enable": "false"})
    asked = [(None, "new"), (None, "__consumer_offsets"), (None, "bad name")]
    for cluster, allow in ((forbidden, True), (AdminCluster(), False)):
        answer = cluster.ask(METADATA, 12, topics=asked, allow_auto_topic_creation=allow)
        assert [topic.error_code for topic in answer.topics] == [3, 3, 17]
        assert not cluster.image.topics
    cluster = AdminCluster()
    cluster.ask(METADATA, 12, topics=asked)
    assert list(cluster.image.topics) == ["new"]


def test_authorized_operations_are_told_to_who_asks() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    for version in (8, 9, 10):
        one = [(None, "known")] if version >= 10 else [("known",)]
        asks = {
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        }
        answer = cluster.ask(METADATA, version, topics=one, **asks)
        assert answer.authorized_operations == {5, 7, 8, 9, 10, 11, 12}
        assert answer.topics[0].authorized_operations == {3, 4, 5, 6, 7, 8, 10, 11}
        answer = cluster.ask(METADATA, version, topics=one)
        assert answer.authorized_operations is None
        assert answer.topics[0].authorized_operations is None


def test_the_cluster_and_its_brokers() -> None:
    cluster = AdminCluster()
    cluster.core.stop_broker(2)
    for version in (0, 1, 2):
        answer = cluster.ask(DESCRIBE_CLUSTER, version)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, cluster.image.controller)
        assert [(b.broker_id, b.port, b.rack) for b in answer.brokers] == [
            (1, 9001, "rack-1"),
            (3, 9003, "rack-3"),
        ]
        assert answer.authorized_operations is None
    every = cluster.ask(DESCRIBE_CLUSTER, 2, include_fenced_brokers=True).brokers
    assert [(b.broker_id, b.is_fenced) for b in every] == [(1, False), (2, True), (3, False)]


def test_endpoints_that_a_broker_does_not_know() -> None:
    cluster = AdminCluster()
    answers = [cluster.ask(DESCRIBE_CLUSTER, 1, endpoint_type=kind) for kind in (2, 3, 0)]
    assert [answer.error_code for answer in answers] == [114, 115, 115]
    assert answers[1].error_message == "Unsupported endpoint type 3"
    assert answers[0].brokers == []


def pages(cluster: AdminCluster, names: list[str], most: int) -> list[list[tuple[str, list[int]]]]:
    """All pages of an answer: topics with their partitions."""
    found, cursor = [], None
    while True:
        answer = cluster.ask(
            DESCRIBE_TOPICS,
            0,
            topics=[(name,) for name in names],
            response_partition_limit=most,
            cursor=cursor,
        )
        found.append([(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics])
        if answer.next_cursor is None:
            return found
        at = answer.next_cursor.topic_name, answer.next_cursor.partition_index
        cursor = cursor_at(*at)


def cursor_at(topic: str, partition: int) -> Any:
    made = KAFKA_APIS[DESCRIBE_TOPICS].request.Cursor
    return made(version=0, topic_name=topic, partition_index=partition)


def test_topics_come_in_pages() -> None:
    cluster = AdminCluster()
    cluster.create("beta", [1], [2], [3])
    cluster.create("alpha", [1], [2])
    alpha, beta = ("alpha", [0, 1]), ("beta", [0, 1, 2])
    assert pages(cluster, [], 100) == [[alpha, beta]]
    assert pages(cluster, [], 2) == [[alpha], [("beta", [0, 1])], [("beta", [2])]]
    assert pages(cluster, ["beta"], 0) == [[("beta", [n])] for n in range(3)]
    assert pages(cluster, ["beta", "alpha"], 3) == [[alpha, ("beta", [0])], [("beta", [1, 2])]]


def test_a_cursor_is_about_its_own_topic() -> None:
    cluster = AdminCluster()
    cluster.create("alpha", [1], [2])
    cluster.create("beta", [1], [2])
    answer = cluster.ask(
        DESCRIBE_TOPICS, 0, topics=[], response_partition_limit=2, cursor=cursor_at("alpha", 1)
    )
    found = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    assert found == [("alpha", [1]), ("beta", [0])]


def test_pages_tell_what_is_wrong() -> None:
    cluster = AdminCluster()
    cluster.create("alpha", [1, 2])
    cluster.core.stop_broker(2)
    names = [("nope",), ("alpha",), ("bad name",)]
    answer = cluster.ask(DESCRIBE_TOPICS, 0, topics=names)
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("alpha", 0),
        ("bad name", 17),
        ("nope", 3),
    ]
    (one,) = answer.topics[0].partitions
    assert (one.leader_id, one.offline_replicas, one.eligible_leader_replicas) == (1, [2], [])
    for cursor in (cursor_at("other", 0), cursor_at("alpha", -1)):
        answer = cluster.ask(DESCRIBE_TOPICS, 0, topics=names[:2], cursor=cursor)
        assert [topic.error_code for topic in answer.topics] == [42, 42]


def test_a_move_shows_at_once() -> None:
    cluster = AdminCluster()
    cluster.create("moves", [1, 2])
    ask: dict[str, Any] = {"topics": [(None, "moves")]}
    assert cluster.ask(METADATA, 12, **ask).topics[0].partitions[0].replica_nodes == [1, 2]
    cluster.move("moves", 0, 3, 1)
    assert cluster.ask(METADATA, 12, **ask).topics[0].partitions[0].replica_nodes == [3, 1, 2]


def test_a_broker_that_was_unregistered() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1, 3])
    cluster.core.commit(remove_broker(cluster.image, 3))
    (old,) = cluster.ask(METADATA, 0, topics=[("known",)]).topics[0].partitions
    assert (old.error_code, old.leader_id, old.replica_nodes, old.isr_nodes) == (9, 1, [1], [1])
    (new,) = cluster.ask(METADATA, 12, topics=[(None, "known")]).topics[0].partitions
    assert (new.error_code, new.replica_nodes, new.offline_replicas) == (0, [1, 3], [3])
