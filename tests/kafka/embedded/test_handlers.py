"""The embedded brokers refuse what real ones refuse, with the same codes and the same words.

Each request goes to both, as the same bytes. What differs by nature is left out: ids, placement,
and the keys of a configuration.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kshunt.backend.embedded.net.api import KAFKA_APIS
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.handlers_admin import (
    ALTER_CONFIGS,
    ALTER_LOG_DIRS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOPICS,
    ELECT,
    INCREMENTAL,
    LIST_MOVES,
    METADATA,
    REASSIGN,
    AdminCluster,
)

pytestmark = pytest.mark.kafka

DEADLINE_S = 30.0
TOPIC = "handlers-admin"
UNKNOWN_ID = UUID(int=12345)
TIME = {"timeout_ms": 9_000}
RATE = "leader.replication.throttled.rate"

REQUESTS: list[tuple[int, int, dict[str, Any]]] = [
    (CREATE_TOPICS, 4, {"topics": [(TOPIC, 1, 1, [], []), ("bad name", 1, 1, [], [])]}),
    (CREATE_TOPICS, 4, {"topics": [("a", 0, 1, [], []), ("b", 1, 0, [], [])]}),
    (CREATE_TOPICS, 4, {"topics": [("a", 1, 1, [], [("nope", "1")]), ("..", 1, 1, [], [])]}),
    (CREATE_TOPICS, 4, {"topics": [("a", 1, 1, [], [("retention.ms", None)])]}),
    (CREATE_TOPICS, 4, {"topics": [("a", -1, -1, [(1, [1])], []), ("b", -1, -1, [(0, [9])], [])]}),
    (DELETE_TOPICS, 6, {"topics": [("nope", None)], **TIME}),
    (DELETE_TOPICS, 6, {"topics": [(None, UNKNOWN_ID), (None, None)], **TIME}),
    (DELETE_TOPICS, 6, {"topics": [("nope", UNKNOWN_ID)], **TIME}),
    (DELETE_TOPICS, 1, {"topic_names": ["nope"], **TIME}),
    (CREATE_PARTITIONS, 3, {"topics": [("nope", 2, None), (TOPIC, 1, None)], **TIME}),
    (CREATE_PARTITIONS, 3, {"topics": [(TOPIC, 2, None)], **TIME}),
    (CREATE_PARTITIONS, 3, {"topics": [(TOPIC, 3, [([1],)])], **TIME}),
    (CREATE_PARTITIONS, 3, {"topics": [(TOPIC, 3, None), (TOPIC, 4, None)], **TIME}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(2, "nope", None), (2, "bad name", None)]}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(4, "2", None), (4, "abc", None), (4, "99", None)]}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(8, "2", None), (8, "", None), (32, "", None)]}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(16, "", None), (2, TOPIC, ["no.such.key"])]}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(99, "x", None), (2, TOPIC, ["retention.bytes"])]}),
    (DESCRIBE_CONFIGS, 4, {"resources": [(2, TOPIC, ["flush.ms"]), (4, "1", ["num.io.threads"])]}),
    (INCREMENTAL, 1, {"resources": [(2, "nope", [("retention.ms", 0, "1")])]}),
    (INCREMENTAL, 1, {"resources": [(2, "", [("retention.ms", 0, "1")])]}),
    (INCREMENTAL, 1, {"resources": [(2, TOPIC, [("nokey", 0, "1")])]}),
    (INCREMENTAL, 1, {"resources": [(2, TOPIC, [("retention.ms", 2, "1")])]}),
    (INCREMENTAL, 1, {"resources": [(2, TOPIC, [("retention.ms", 0, None)])]}),
    (INCREMENTAL, 1, {"resources": [(4, "2", [(RATE, 0, "1")]), (4, "abc", [(RATE, 0, "1")])]}),
    (INCREMENTAL, 1, {"resources": [(4, "1", [("num.partitions", 0, "7")])]}),
    (INCREMENTAL, 1, {"resources": [(99, "x", [("a", 0, "1")])]}),
    (ALTER_CONFIGS, 2, {"resources": [(2, "nope", []), (4, "abc", []), (99, "x", [])]}),
    (ALTER_CONFIGS, 2, {"resources": [(2, TOPIC, [("retention.ms", None)])]}),
    (REASSIGN, 0, {"topics": [(TOPIC, [(0, [99]), (1, None), (7, [1])]), ("nope", [(0, [1])])]}),
    (REASSIGN, 1, {"topics": [(TOPIC, [(0, []), (1, [1, 1])])]}),
    (REASSIGN, 1, {"topics": [(TOPIC, [(0, [1])])], "allow_replication_factor_change": False}),
    (LIST_MOVES, 0, {"topics": [("nope", [0]), (TOPIC, [0, 9])]}),
    (ELECT, 2, {"election_type": 0, "topic_partitions": [(TOPIC, [0, 9]), ("nope", [0])]}),
    (ELECT, 1, {"election_type": 1, "topic_partitions": [(TOPIC, [0])]}),
    (ELECT, 0, {"topic_partitions": [(TOPIC, [0, 9])]}),
    (ELECT, 2, {"election_type": 5, "topic_partitions": [(TOPIC, [0])]}),
    (METADATA, 12, {"topics": [(None, "nope"), (None, "bad name")]}),
    (METADATA, 12, {"topics": [(UNKNOWN_ID, None), (None, TOPIC)]}),
    (METADATA, 11, {"topics": [(UNKNOWN_ID, TOPIC)]}),
    (DESCRIBE_CLUSTER, 1, {"endpoint_type": 2}),
    (DESCRIBE_CLUSTER, 1, {"endpoint_type": 3}),
    (DESCRIBE_TOPICS, 0, {"topics": [("nope",), ("bad name",)]}),
    (ALTER_LOG_DIRS, 2, {"dirs": [("/nope", [(TOPIC, [0]), ("nope", [0])])]}),
]


@pytest.fixture(scope="module")
def real(kafka: RealKafka) -> Iterator[int]:
    """The port of a real cluster's broker 1, with a topic as the embedded one's."""
    port = int(kafka.bootstrap_servers.split(",")[0].rpartition(":")[2])
    replicas = [(0, [1, 2]), (1, [2, 3])]
    made = ask(port, CREATE_TOPICS, 7, topics=[(TOPIC, -1, -1, replicas, [])])
    assert made.topics[0].error_code == 0
    yield port
    ask(port, DELETE_TOPICS, 6, topics=[(TOPIC, None)], **TIME)


def ask(port: int, key: int, version: int, **fields: Any) -> Any:
    """A real broker's answer."""
    api = KAFKA_APIS[key]
    end = b"\x00" if api.flexible(version) else b""
    body = bytes(api.request(version=version, **fields).encode(version=version))
    frame = struct.pack(">hhih", key, version, 7, -1) + end + body
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as answers:
            size = int.from_bytes(answers.read(4), "big")
            return api.response.decode(answers.read(size)[4 + len(end) :], version=version)


def entries(answer: Any) -> list[Any]:
    """The parts of an answer that are about one thing each, in any order."""
    parts = [value for value in answer.to_dict().values() if isinstance(value, list)]
    found = [entry for part in parts for entry in part if "host" not in entry]
    return sorted(map(repr, found))


def numbered(requests: list[tuple[int, int, dict[str, Any]]]) -> list[str]:
    return [f"{KAFKA_APIS[key].name}-{at}" for at, (key, _, _) in enumerate(requests)]


@pytest.mark.parametrize(("key", "version", "fields"), REQUESTS, ids=numbered(REQUESTS))
def test_both_answer_alike(real: int, key: int, version: int, fields: dict[str, Any]) -> None:
    cluster = AdminCluster(static={"auto.create.topics.enable": "false"})
    cluster.create(TOPIC, [1, 2], [2, 3])
    theirs, ours = ask(real, key, version, **fields), cluster.ask(key, version, **fields)
    assert entries(ours) == entries(theirs)
    for word in ("error_code", "error_message", "endpoint_type"):
        assert getattr(ours, word, None) == getattr(theirs, word, None)
