"""Configurations as the embedded brokers answer them.

Error codes and messages are those of Apache Kafka 4.1.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from kshunt.backend.embedded.metadata.records import ResourceType
from tests.support.embedded.handlers_admin import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL,
    AdminCluster,
    versions,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
BAD_NAME = (
    "Topic name is invalid: 'bad name' contains one or more characters other than ASCII "
    "alphanumerics, '.', '_' and '-'"
)
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)


def described(cluster: AdminCluster, *resources: Any, version: int = 4, **more: Any) -> list[Any]:
    results: list[Any] = cluster.ask(DESCRIBE_CONFIGS, version, resources=resources, **more).results
    return results


def incremental(cluster: AdminCluster, kind: int, name: str, *changes: Any, **more: Any) -> Any:
    """Error code and message of one resource."""
    answer = cluster.ask(INCREMENTAL, 1, resources=[(kind, name, list(changes))], **more)
    (one,) = answer.responses
    return one.error_code, one.error_message


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_a_topics_configuration(version: int) -> None:
    cluster = AdminCluster(static={"log.retention.ms": "500"})
    cluster.create("known", [1], retention_ms="1000")
    keys = ["retention.ms", "no.such.key", "leader.replication.throttled.replicas"]
    for with_synonyms in (True, False):
        more = {"version": version, "include_synonyms": with_synonyms}
        (one,) = described(cluster, (TOPIC, "known", keys), **more)
        assert (one.error_code, one.error_message) == (0, "")
        found = {config.name: config for config in one.configs}
        assert sorted(found) == ["leader.replication.throttled.replicas", "retention.ms"]
        retention = found["retention.ms"]
        assert (retention.value, retention.config_source) == ("1000", 1)
        assert not retention.read_only
        assert not retention.is_sensitive
        if version >= 3:
            assert (retention.config_type, retention.documentation) == (5, None)
        synonyms = [(s.name, s.value, s.source) for s in retention.synonyms]
        expected = [
            ("retention.ms", "1000", 1),
            ("log.retention.ms", "500", 4),
            ("log.retention.ms", "604800000", 5),
        ]
        assert synonyms == (expected if with_synonyms else [])
        assert found["leader.replication.throttled.replicas"].synonyms == []


def test_no_keys_means_all_keys() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    null, empty = described(cluster, (TOPIC, "known", None), (TOPIC, "known", []))
    assert len(null.configs) > 20
    assert [c.name for c in null.configs] == [c.name for c in empty.configs]


def test_a_brokers_configuration_is_asked_of_that_broker() -> None:
    cluster = AdminCluster()
    keys = ["num.partitions", "num.io.threads"]
    assert incremental(cluster, BROKER, "", ("num.io.threads", 0, "9")) == (0, None)
    assert incremental(cluster, BROKER, "1", ("num.io.threads", 0, "10")) == (0, None)
    (one,) = described(cluster, (BROKER, "1", keys), include_synonyms=True)
    found = {c.name: (c.value, c.config_source, c.read_only) for c in one.configs}
    assert found == {"num.io.threads": ("10", 2, False), "num.partitions": ("1", 5, True)}
    threads = next(c for c in one.configs if c.name == "num.io.threads")
    assert [(s.value, s.source) for s in threads.synonyms] == [("10", 2), ("9", 3), ("8", 5)]
    (default,) = described(cluster, (BROKER, "", None))
    assert [(c.name, c.value, c.config_source) for c in default.configs] == [
        ("num.io.threads", "9", 3)
    ]


def test_what_cannot_be_described() -> None:
    cluster = AdminCluster()
    expected = "Unexpected broker id, expected 1"
    cases = [
        ((TOPIC, "nope", None), 3, ""),
        ((TOPIC, "bad name", None), 17, BAD_NAME),
        ((BROKER, "2", None), 42, f"{expected} or empty string, but received 2"),
        ((BROKER, "99", None), 42, f"{expected} or empty string, but received 99"),
        ((BROKER, "abc", None), 42, "Broker id must be an integer, but it is: abc"),
        ((LOGGER, "1", None), 0, ""),
        ((LOGGER, "2", None), 42, f"{expected} but received 2"),
        ((LOGGER, "", None), 42, "Broker id must not be empty"),
        ((METRICS, "m", None), 0, ""),
        ((METRICS, "", None), 42, "Client metrics subscription name must not be empty"),
        ((GROUP, "g", None), 0, ""),
        ((GROUP, "", None), 42, "Group name must not be empty"),
    ]
    results = described(cluster, *(resource for resource, _, _ in cases))
    for (resource, code, why), result in zip(cases, results, strict=True):
        assert (result.resource_type, result.resource_name) == resource[:2]
        assert (result.error_code, result.error_message, result.configs) == (code, why, [])
    odd = described(cluster, (99, "x", None), (BROKER, "1", None))
    assert [(r.error_code, r.error_message) for r in odd] == [(42, MALFORMED)] * 2


def test_keys_are_set_appended_to_and_deleted() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    listed = "leader.replication.throttled.replicas"
    change = ("retention.ms", 0, "5000"), (listed, 0, "0:1")
    assert incremental(cluster, TOPIC, "known", *change, validate_only=True) == (0, None)
    assert not cluster.image.dynamic_configs(ResourceType.TOPIC, "known")
    assert incremental(cluster, TOPIC, "known", *change) == (0, None)
    assert incremental(cluster, TOPIC, "known", (listed, 2, "1:2")) == (0, None)
    assert incremental(cluster, TOPIC, "known", ("retention.ms", 1, None)) == (0, None)
    assert cluster.image.dynamic_configs(ResourceType.TOPIC, "known") == {listed: "0:1,1:2"}
    assert incremental(cluster, TOPIC, "known", (listed, 3, "0:1")) == (0, None)
    assert cluster.image.dynamic_configs(ResourceType.TOPIC, "known") == {listed: "1:2"}


REFUSED_CHANGES: list[tuple[int, str, list[Any], int, str]] = [
    (TOPIC, "nope", [("retention.ms", 0, "1")], 3, "The topic 'nope' does not exist."),
    (TOPIC, "bad name", [("retention.ms", 0, "1")], 17, BAD_NAME),
    (TOPIC, "", [("retention.ms", 0, "1")], 42, "Default topic resources are not allowed."),
    (TOPIC, "known", [("nokey", 0, "1")], 40, "Unknown topic config name: nokey"),
    (
        TOPIC,
        "known",
        [("retention.ms", 0, "1"), ("retention.ms", 1, None)],
        42,
        "Error due to duplicate config keys",
    ),
    (
        TOPIC,
        "known",
        [("retention.ms", 0, None)],
        42,
        "Null value not supported for : retention.ms",
    ),
    (
        TOPIC,
        "known",
        [("retention.ms", 2, "1")],
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    ),
    (
        BROKER,
        "2",
        [("num.io.threads", 0, "9")],
        42,
        "Unexpected broker id, expected 1, but received 2",
    ),
    (BROKER, "abc", [("num.io.threads", 0, "9")], 42, "Node id must be an integer, but it is: abc"),
    (
        BROKER,
        "1",
        [("num.partitions", 0, "7")],
        42,
        "Cannot update these configs dynamically: Set(num.partitions)",
    ),
    (
        BROKER,
        "",
        [("replica.placer.class.name", 0, "striped")],
        42,
        "Cannot update these configs dynamically: Set(replica.placer.class.name)",
    ),
    (LOGGER, "1", [("kafka", 0, "INFO")], 40, "Logger kafka does not exist!"),
    (LOGGER, "2", [("kafka", 0, "INFO")], 42, "Unexpected node id. Expected 1, but received 2"),
    (METRICS, "m", [("a", 0, "1")], 42, "Unknown client metrics configuration: a"),
    (GROUP, "g", [("a", 0, "1")], 40, "Unknown group config name: a"),
    (99, "x", [("a", 0, "1")], 42, "Unknown resource type 99"),
]


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "why"),
    REFUSED_CHANGES,
    ids=[f"{kind}-{name}-{changes[0][0]}" for kind, name, changes, _, _ in REFUSED_CHANGES],
)
def test_what_cannot_be_changed(kind: int, name: str, changes: Any, code: int, why: str) -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    before = cluster.image.offset
    assert incremental(cluster, kind, name, *changes) == (code, why)
    assert cluster.image.offset == before


def test_one_resource_does_not_suffer_from_another() -> None:
    cluster = AdminCluster()
    for name in ("one", "two"):
        cluster.create(name, [1])
    changes = [("retention.ms", 0, "1")]
    asked = [(TOPIC, "one", changes), (TOPIC, "nope", changes), (TOPIC, "two", changes)]
    responses = cluster.ask(INCREMENTAL, 0, resources=[*asked, (TOPIC, "two", [])]).responses
    results = {r.resource_name: (r.error_code, r.error_message) for r in responses}
    assert results["one"] == (0, None)
    assert results["nope"][0] == 3
    assert results["two"] == (42, "Each resource must appear at most once.")
    assert not cluster.image.dynamic_configs(ResourceType.TOPIC, "two")


def test_an_unknown_operation_fails_the_whole_request() -> None:
    cluster = AdminCluster()
    cluster.create("known", [1])
    assert incremental(cluster, TOPIC, "known", ("retention.ms", 9, "1"))[0] == -1


@pytest.mark.parametrize("version", versions(ALTER_CONFIGS))
def test_all_keys_are_replaced_at_once(version: int) -> None:
    cluster = AdminCluster()
    cluster.create("known", [1], retention_ms="1000")
    asked = [
        (TOPIC, "known", [("segment.ms", "60000")]),
        (TOPIC, "nope", [("segment.ms", "60000")]),
        (TOPIC, "", []),
    ]
    for validate_only in (True, False):
        answer = cluster.ask(ALTER_CONFIGS, version, resources=asked, validate_only=validate_only)
        assert [r.error_code for r in answer.responses] == [0, 3, 42]
        present = cluster.image.dynamic_configs(ResourceType.TOPIC, "known")
        assert present == ({"retention.ms": "1000"} if validate_only else {"segment.ms": "60000"})
    null = [(TOPIC, "known", [("segment.ms", None)])]
    (result,) = cluster.ask(ALTER_CONFIGS, version, resources=null).responses
    assert result.error_message == "Null value not supported for : segment.ms"
