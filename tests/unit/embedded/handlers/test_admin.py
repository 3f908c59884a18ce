"""Topics, reassignments and elections as the embedded brokers answer them.

Error codes and messages are those of Apache Kafka 4.1.1.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.embedded.handlers_admin import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT,
    LIST_MOVES,
    REASSIGN,
    AdminCluster,
    versions,
)

UNKNOWN_ID = UUID(int=12345)
TIME = {"timeout_ms": 5_000}
BAD_NAME = (
    "Topic name is invalid: 'bad name' contains one or more characters other than ASCII "
    "alphanumerics, '.', '_' and '-'"
)


# --- topics


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
def test_topics_are_created_and_the_answer_tells_what_they_became(version: int) -> None:
    cluster = AdminCluster()
    asked: list[Any] = [
        ("placed", 4, 2, [], [("retention.ms", "1000"), ("segment.bytes", "1048576")]),
        ("given", -1, -1, [(0, [1, 3]), (1, [3, 2])], []),
    ]
    answer = cluster.ask(CREATE_TOPICS, version, topics=asked)
    assert [(t.name, t.error_code, t.error_message) for t in answer.topics] == [
        ("placed", 0, None),
        ("given", 0, None),
    ]
    assert [len(cluster.at("placed", n).replicas) for n in range(4)] == [2] * 4
    assert [cluster.at("given", n).replicas for n in range(2)] == [(1, 3), (3, 2)]
    if version >= 5:
        shapes = [(t.num_partitions, t.replication_factor) for t in answer.topics]
        assert shapes == [(4, 2), (2, 2)]
        told = {c.name: (c.value, c.config_source) for c in answer.topics[0].configs}
        assert told["retention.ms"] == ("1000", 1)
        assert told["cleanup.policy"] == ("delete", 5)
        assert list(told) == sorted(told)
    if version >= 7:
        ids = [cluster.topic_id("placed"), cluster.topic_id("given")]
        assert [t.topic_id for t in answer.topics] == ids


def test_topics_that_are_only_validated_are_described_and_not_there() -> None:
    cluster = AdminCluster(static={"num.partitions": "3", "log.retention.ms": "77"})
    asked: list[Any] = [("later", -1, -1, [], [("cleanup.policy", "compact")])]
    (topic,) = cluster.ask(CREATE_TOPICS, 7, topics=asked, validate_only=True).topics
    assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (0, 3, 1)
    told = {c.name: (c.value, c.config_source) for c in topic.configs}
    assert (told["cleanup.policy"], told["retention.ms"]) == (("compact", 1), ("77", 4))
    assert not cluster.image.topics


REFUSED_TOPICS: list[tuple[Any, int, str | None]] = [
    (("known", 1, 1, [], []), 36, "Topic 'known' already exists."),
    (("bad name", 1, 1, [], []), 17, BAD_NAME),
    (("..", 1, 1, [], []), 17, "Topic name is invalid: '..' is not allowed"),
    (("", 1, 1, [], []), 17, "Topic name is invalid: the empty string is not allowed"),
    (("c1", 1, 1, [], [("nope", "1")]), 40, "Unknown topic config name: nope"),
    (
        ("c2", 1, 1, [], [("retention.ms", "x")]),
        40,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        ("c3", 1, 1, [], [("retention.ms", None)]),
        40,
        "Null value not supported for topic configs: retention.ms",
    ),
    (("c4", 0, 1, [], []), 37, "Number of partitions was set to an invalid non-positive value."),
    (("c7", -1, -1, [(1, [1])], []), 39, None),
    (("c8", -1, -1, [(0, [99])], []), 39, None),
    (("c9", -1, -1, [(0, [])], []), 39, None),
    (("c5", 1, 9, [], []), 38, None),
]


def test_topics_that_cannot_be_created() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    asked = [topic for topic, _, _ in REFUSED_TOPICS]
    answer = cluster.ask(
        CREATE_TOPICS,
        7,
        topics=[*asked, ("twice", 1, 1, [], []), ("fine", 1, 1, [], []), ("twice", 2, 1, [], [])],
    )
    results = {t.name: (t.error_code, t.error_message) for t in answer.topics}
    for (name, *_), code, why in REFUSED_TOPICS:
        assert results[name][0] == code
        assert why in (None, results[name][1])
    assert results["twice"] == (42, "Duplicate topic name.")
    assert results["fine"] == (0, None)
    assert len(answer.topics) == len(REFUSED_TOPICS) + 2
    assert sorted(cluster.image.topics) == ["fine", "known"]


@pytest.mark.parametrize("version", versions(DELETE_TOPICS))
def test_topics_are_gone_when_the_answer_comes(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    names = ["nope", "known"]
    asked = {"topics": [(n, None) for n in names]} if version >= 6 else {"topic_names": names}
    answer = cluster.ask(DELETE_TOPICS, version, **asked, **TIME)
    assert [(t.name, t.error_code) for t in answer.responses] == [("nope", 3), ("known", 0)]
    if version >= 5:
        why = "This server does not host this topic-partition."
        assert [t.error_message for t in answer.responses] == [why, None]
    assert not cluster.image.topics


def test_topics_are_deleted_by_id() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    known = cluster.topic_id("known")
    asked = [(None, known), (None, UNKNOWN_ID), (None, None), ("known", known), ("x", None)]
    answer = cluster.ask(DELETE_TOPICS, 6, topics=[*asked, ("x", None)], **TIME)
    assert [(t.name, t.topic_id, t.error_code, t.error_message) for t in answer.responses] == [
        ("known", known, 0, None),
        (None, UNKNOWN_ID, 100, "This server does not host this topic ID."),
        (None, None, 42, "Neither topic name nor id were specified."),
        ("known", known, 42, "You may not specify both topic name and topic id."),
        ("x", None, 42, "Duplicate topic name."),
    ]
    assert not cluster.image.topics


def test_topics_are_not_deleted_where_that_is_disabled() -> None:
    cluster = AdminCluster(static={"delete.topic.enable": "false"})
    cluster.create("known", [1])
    answer = cluster.ask(DELETE_TOPICS, 6, topics=[("known", None)], **TIME)
    assert [t.error_code for t in answer.responses] == [73]
    assert list(cluster.image.topics) == ["known"]


@pytest.mark.parametrize("version", versions(CREATE_PARTITIONS))
def test_partitions_are_added(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("placed", [1, 2])
    cluster.create("given", [1, 2])
    asked = [("placed", 3, None), ("given", 2, [([3, 1],)])]
    for validate_only in (True, False):
        answer = cluster.ask(
            CREATE_PARTITIONS, version, topics=asked, validate_only=validate_only, **TIME
        )
        assert [(t.name, t.error_code, t.error_message) for t in answer.results] == [
            ("placed", 0, None),
            ("given", 0, None),
        ]
        assert (cluster.image.partition("given", 1) is None) is validate_only
    assert cluster.at("given", 1).replicas == (3, 1)
    assert len(cluster.at("placed", 2).replicas) == 2


def test_partitions_that_cannot_be_added() -> None:
    cluster = AdminCluster()
    for name in ("same", "less", "few", "stranger"):
        cluster.create(name, [1, 2], [2, 3])
    asked = [
        ("nope", 2, None),
        ("same", 2, None),
        ("less", 1, None),
        ("few", 4, [([1, 2],)]),
        ("stranger", 3, [([1, 99],)]),
        ("twice", 3, None),
        ("twice", 4, None),
    ]
    results = cluster.ask(CREATE_PARTITIONS, 3, topics=asked, **TIME).results
    assert [(t.name, t.error_code) for t in results] == [
        ("nope", 3),
        ("same", 37),
        ("less", 37),
        ("few", 39),
        ("stranger", 39),
        ("twice", 42),
    ]
    told = [result.error_message for result in results[:2]]
    assert told == [None, "Topic already has 2 partition(s)."]


def test_a_request_whose_time_is_over_does_nothing() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    late = {"timeout_ms": 0}
    created = cluster.ask(CREATE_TOPICS, 7, topics=[("new", 1, 1, [], [])], **late)
    deleted = cluster.ask(DELETE_TOPICS, 6, topics=[("known", None)], **late)
    grown = cluster.ask(CREATE_PARTITIONS, 3, topics=[("known", 2, None)], **late)
    moved = cluster.ask(REASSIGN, 1, topics=[("known", [(0, [2])])], **late)
    assert [created.topics[0].error_code, deleted.responses[0].error_code] == [7, 7]
    assert [grown.results[0].error_code, moved.error_code] == [7, 7]
    assert list(cluster.image.topics) == ["known"]
    assert cluster.at("known").replicas == (1,)


# --- reassignments


def moves(cluster: AdminCluster, topics: Any = None) -> list[Any]:
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in cluster.ask(LIST_MOVES, 0, topics=topics).topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", versions(REASSIGN))
def test_moves_are_started_listed_and_cancelled(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2], [2, 3])
    cluster.fill("one", 0, 1e9)
    cluster.fill("one", 1, 1e9)
    answer = cluster.ask(REASSIGN, version, topics=[("one", [(0, [3, 1]), (1, [1, 3])])])
    assert (answer.error_code, answer.error_message) == (0, None)
    codes = [
        (p.partition_index, p.error_code, p.error_message) for p in answer.responses[0].partitions
    ]
    assert codes == [(0, 0, None), (1, 0, None)]
    first, second = ("one", 0, [3, 1, 2], [3], [2]), ("one", 1, [1, 3, 2], [1], [2])
    assert moves(cluster) == [first, second]
    assert moves(cluster, [("one", [1, 9]), ("nope", [0])]) == [second]
    assert moves(cluster, []) == []
    cluster.ask(REASSIGN, version, topics=[("one", [(0, None)])])
    assert moves(cluster) == [second]
    cluster.core.advance(cluster.core.now_ms + 60_000)
    assert moves(cluster) == []
    assert cluster.at("one", 1).replicas == (1, 3)


def test_moves_that_cannot_be() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2], [2, 3])
    asked = [
        ("one", [(0, [99]), (1, None), (7, [1])]),
        ("nope", [(0, [1])]),
        ("one", [(0, [1, 1])]),
    ]
    first = cluster.ask(REASSIGN, 0, topics=asked[:2])
    results = [(p.error_code, p.error_message) for t in first.responses for p in t.partitions]
    stranger = (
        "The manual partition assignment includes broker 99, but no such broker is registered."
    )
    assert results == [
        (39, stranger),
        (85, None),
        (3, "Unable to find partition one:7."),
        (3, "Unable to find a topic named nope."),
    ]
    (entry,) = cluster.ask(REASSIGN, 0, topics=asked[2:]).responses
    assert entry.partitions[0].error_code == 39
    (entry,) = cluster.ask(REASSIGN, 0, topics=[("one", [(0, [])])]).responses
    assert entry.partitions[0].error_code == 39
    assert moves(cluster) == []


def test_the_replication_factor_changes_only_if_it_may() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1, 2])
    asked: dict[str, Any] = {"topics": [("one", [(0, [1])])]}
    answer = cluster.ask(REASSIGN, 1, **asked, allow_replication_factor_change=False)
    (one,) = answer.responses[0].partitions
    why = "The replication factor is changed from 2 to 1"
    assert (one.error_code, one.error_message) == (38, why)
    assert answer.allow_replication_factor_change is False
    answer = cluster.ask(REASSIGN, 1, **asked)
    assert answer.responses[0].partitions[0].error_code == 0
    assert cluster.at("one").replicas == (1,)


# --- elections


def elect(cluster: AdminCluster, version: int, partitions: Any, kind: int = 0) -> list[Any]:
    more = {"election_type": kind} if version >= 1 else {}
    answer = cluster.ask(ELECT, version, topic_partitions=partitions, **more)
    return [
        (t.topic, p.partition_id, p.error_code)
        for t in answer.replica_election_results
        for p in t.partition_result
    ]


def led_by_others() -> AdminCluster:
    """Broker 1 is preferred for two partitions and leads neither; it is in sync again."""
    cluster = AdminCluster()
    cluster.create("one", [1, 2], [1, 3], [2, 3])
    cluster.create("two", [3, 1])
    cluster.core.stop_broker(1)
    cluster.restart(1)
    cluster.core.advance(cluster.core.now_ms + 5_000)
    assert [cluster.at("one", n).leader for n in range(3)] == [2, 3, 2]
    return cluster


@pytest.mark.parametrize("version", versions(ELECT))
def test_preferred_leaders_lead_when_the_answer_comes(version: int) -> None:
    cluster = led_by_others()
    asked = [("one", [0, 2, 9]), ("nope", [0])]
    assert elect(cluster, version, asked) == [
        ("one", 0, 0),
        ("one", 2, 84),
        ("one", 9, 3),
        ("nope", 0, 3),
    ]
    assert cluster.at("one", 0).leader == 1
    assert elect(cluster, version, None) == [("one", 1, 0)]
    assert cluster.at("one", 1).leader == 1
    answer = cluster.ask(ELECT, version, topic_partitions=None)
    listed = {t.topic: t.partition_result for t in answer.replica_election_results}
    assert listed == {"one": [], "two": []}


def test_a_preferred_leader_that_cannot_lead() -> None:
    cluster = led_by_others()
    cluster.core.stop_broker(1)
    assert elect(cluster, 2, [("one", [0])]) == [("one", 0, 80)]


def test_unclean_elections() -> None:
    cluster = AdminCluster()
    cluster.create("lost", [1, 2])
    cluster.core.stop_broker(2)
    cluster.core.stop_broker(1)
    cluster.restart(2)
    assert cluster.at("lost").leader == -1
    assert elect(cluster, 2, [("lost", [0])], kind=1) == [("lost", 0, 0)]
    assert (cluster.at("lost").leader, cluster.at("lost").isr) == (2, (2,))
    assert elect(cluster, 2, [("lost", [0])], kind=1) == [("lost", 0, 84)]
    cluster.core.stop_broker(2)
    assert elect(cluster, 2, None, kind=1) == [("lost", 0, 83)]


def test_an_unknown_kind_of_election() -> None:
    cluster = AdminCluster()
    cluster.create("one", [1])
    answer = cluster.ask(ELECT, 2, election_type=5, topic_partitions=[("one", [0])])
    (one,) = answer.replica_election_results[0].partition_result
    assert (answer.error_code, one.error_code) == (42, 42)
    assert one.error_message == "Unknown election type 5"
