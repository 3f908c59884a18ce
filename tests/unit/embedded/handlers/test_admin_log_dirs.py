"""DescribeLogDirs and AlterReplicaLogDirs of the embedded brokers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.embedded.handlers_admin import (
    ALTER_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    ROW_BYTES,
    AdminCluster,
    versions,
)

RESPONSE = KAFKA_APIS[DESCRIBE_LOG_DIRS].response
DIR_ANSWER = RESPONSE.DescribeLogDirsResult
EVERY_VERSION = pytest.mark.parametrize("version", versions(DESCRIBE_LOG_DIRS))
DISK = 100_000_000.0


def filled_cluster() -> AdminCluster:
    """Topics with different sizes, of which one replica is being copied."""
    cluster = AdminCluster(4)
    random = Random(5)
    for name, count in (("orders", 5), ("events", 140), ("alone", 1)):
        cluster.create(name, *(random.sample(range(1, 5), 2) for _ in range(count)))
        for number in range(count):
            cluster.fill(name, number, float(random.randrange(10**10)))
    return cluster


TOTAL_BYTES = Hardware().disk_bytes


def places(cluster: AdminCluster, broker: int) -> dict[TopicPartition, tuple[str, int]]:
    """By partition of a broker: its directory by the controller, and its size."""
    sizes = cluster.core.plane.replication.sizes()
    found = {}
    for topic, number, partition in cluster.image.hosted(broker):
        held = cluster.core.plane.named(topic.name, number)
        assert held is not None
        size = int(sizes[held.replicas[broker]])
        found[TopicPartition(topic.name, number)] = partition.log_dir(broker), size
    return found


def reference(cluster: AdminCluster, version: int, broker: int) -> bytes:
    """The whole answer by kafka-python's own encoder."""
    made = DIR_ANSWER.DescribeLogDirsTopic
    dirs = []
    for path in cluster.image.brokers[broker].log_dirs:
        topics: dict[str, list[Any]] = {}
        for (topic, number), (log_dir, size) in sorted(places(cluster, broker).items()):
            if log_dir == path:
                entry = made.DescribeLogDirsPartition(
                    version=version, partition_index=number, partition_size=size
                )
                topics.setdefault(topic, []).append(entry)
        listed = [made(version=version, name=n, partitions=ps) for n, ps in topics.items()]
        used = sum(size for where, size in places(cluster, broker).values() if where == path)
        one = DIR_ANSWER(version=version, log_dir=path, topics=listed)
        one.total_bytes, one.usable_bytes = TOTAL_BYTES, TOTAL_BYTES - used
        dirs.append(one)
    return bytes(RESPONSE(version=version, results=dirs).encode(version=version))


def described(cluster: AdminCluster, broker: int, topics: Any = None) -> dict[str, Any]:
    """By directory: its error, or its replicas as (topic, partition, size, lag, future)."""
    found: dict[str, Any] = {}
    for one in cluster.ask(DESCRIBE_LOG_DIRS, 4, broker, topics=topics).results:
        found[one.log_dir] = one.error_code or [
            (t.name, p.partition_index, p.partition_size, p.offset_lag, p.is_future_key)
            for t in one.topics
            for p in t.partitions
        ]
    return found


def alter(cluster: AdminCluster, broker: int, path: str, *partitions: TopicPartition) -> list[int]:
    """The error of each partition."""
    topics = [(topic, [number]) for topic, number in partitions]
    results = cluster.ask(ALTER_LOG_DIRS, 2, broker, dirs=[(path, topics)]).results
    codes = {
        TopicPartition(one.topic_name, p.partition_index): p.error_code
        for one in results
        for p in one.partitions
    }
    return [codes[partition] for partition in partitions]


@EVERY_VERSION
def test_answers_are_those_of_kafka_pythons_encoder(version: int) -> None:
    cluster = filled_cluster()
    for broker in cluster.image.brokers:
        answer = cluster.ask_bytes(DESCRIBE_LOG_DIRS, version, broker, topics=None)
        assert answer == reference(cluster, version, broker)


@EVERY_VERSION
def test_only_what_is_asked_for(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2], [1, 2], [2, 3])
    cluster.create("two", [1])
    asked = [("one", [0, 2, 9]), ("two", []), ("nope", [0])]
    answer = cluster.ask(DESCRIBE_LOG_DIRS, version, topics=asked)
    found = [
        (t.name, p.partition_index) for d in answer.results for t in d.topics for p in t.partitions
    ]
    assert found == [("one", 0)]
    empty = cluster.ask(DESCRIBE_LOG_DIRS, version, topics=[])
    assert [(d.log_dir, d.topics) for d in empty.results] == [("/a", []), ("/b", [])]


def test_a_follower_that_is_behind_has_no_lag_of_its_own() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1])
    cluster.fill("one", 0, 5_000_000.0)
    cluster.move("one", 0, 1, 2)
    (replica,) = (one for found in described(cluster, 2).values() for one in found)
    assert replica == ("one", 0, 0, 0, False)
    (leader,) = (one for found in described(cluster, 1).values() for one in found)
    assert leader[2:] == (5_000_000, 0, False)


def test_what_retention_took_is_not_there_any_more() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2])
    cluster.fill("one", 0, DISK)
    held = cluster.core.plane.named("one", 0)
    assert held is not None
    cluster.core.plane.retain({held.key: (-1, int(DISK / 4))})
    for broker in (1, 2):
        (replica,) = (one for found in described(cluster, broker).values() for one in found)
        assert replica[2] == pytest.approx(DISK / 4, rel=0.01)


def test_a_disk_that_failed_says_nothing_but_its_error() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2], [1, 2])
    before = described(cluster, 1)
    cluster.core.fail_log_dir(1, "/a")
    assert described(cluster, 1) == {"/a": 56, "/b": before["/b"]}
    item = next(item for item, (path, _) in places(cluster, 1).items() if path == "/a")
    assert alter(cluster, 1, "/b", item) == [56]
    assert alter(cluster, 1, "/a", item) == [57]


def test_a_copy_is_described_until_it_is_done() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2])
    size = 10 * ROW_BYTES * 1000
    cluster.fill("one", 0, float(size))
    plane = cluster.core.plane
    plane.replication.limits.set_throttles(plane.broker_number(1), 1e18, 1e18, size / 10)
    source = cluster.at("one").log_dir(1)
    target = "/b" if source == "/a" else "/a"
    assert alter(cluster, 1, target, TopicPartition("one", 0)) == [0]
    assert described(cluster, 1)[target] == [("one", 0, 0, size // ROW_BYTES, True)]
    cluster.core.advance(cluster.core.now_ms + 4_000)
    ((_, _, copied, lag, future),) = described(cluster, 1)[target]
    assert future
    assert 0 < copied < size
    assert lag == pytest.approx((size - copied) / ROW_BYTES, abs=2)
    assert described(cluster, 1)[source] == [("one", 0, size, 0, False)]
    cluster.core.advance(cluster.core.now_ms + 60_000)
    assert described(cluster, 1) == {source: [], target: [("one", 0, size, 0, False)]}
    assert cluster.at("one").log_dir(1) == target


def test_its_own_directory_ends_a_copy() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2])
    cluster.fill("one", 0, DISK)
    source = cluster.at("one").log_dir(1)
    target = "/b" if source == "/a" else "/a"
    item = TopicPartition("one", 0)
    assert alter(cluster, 1, target, item) == [0]
    assert alter(cluster, 1, target, item) == [0]
    assert alter(cluster, 1, source, item) == [0]
    assert described(cluster, 1) == {source: [("one", 0, int(DISK), 0, False)], target: []}


@pytest.mark.parametrize("version", versions(ALTER_LOG_DIRS))
def test_what_cannot_be_copied(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("one", [1], [2])
    asked = [("one", [0, 1, 9]), ("nope", [0])]
    for path, expected in (
        ("/a", {("one", 0): 0, ("one", 1): 9, ("one", 9): 3, ("nope", 0): 3}),
        ("/nope", dict.fromkeys([("one", 0), ("one", 1), ("one", 9), ("nope", 0)], 57)),
    ):
        results = cluster.ask(ALTER_LOG_DIRS, version, dirs=[(path, asked)]).results
        codes = {
            (t.topic_name, p.partition_index): p.error_code for t in results for p in t.partitions
        }
        assert codes == expected


def test_a_directory_is_kept_in_mind_for_a_replica_that_comes_later() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1], [1])
    for number, path in enumerate(("/b", "/a")):
        item = TopicPartition("one", number)
        assert alter(cluster, 2, path, item) == [9]
        cluster.move("one", number, 1, 2)
        assert cluster.at("one", number).log_dir(2) == path
        assert item in {p for p, (where, _) in places(cluster, 2).items() if where == path}
