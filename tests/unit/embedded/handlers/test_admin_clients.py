"""Unmodified clients administer the embedded brokers over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import TopicPartition, TopicPartitionReplica
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.errors import NoError, UnknownTopicOrPartitionError

from tests.support.embedded.handlers_admin import CLUSTER_ID, AdminCluster, listening

DEADLINE_S = 60.0


@pytest.fixture
def served() -> Iterator[tuple[AdminCluster, str]]:
    with listening() as cluster:
        yield cluster


@pytest.fixture
def python(served: tuple[AdminCluster, str]) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=served[1].split(","))
    yield admin
    admin.close()


@pytest.fixture
def librdkafka(served: tuple[AdminCluster, str]) -> AdminClient:
    return AdminClient({"log_level": 0, "bootstrap.servers": served[1]})


def done(futures: Any) -> Any:
    """The one result of a call of confluent-kafka."""
    (future,) = futures.values()
    return future.result(timeout=DEADLINE_S)


def test_librdkafka_creates_grows_and_deletes_topics(
    served: tuple[AdminCluster, str], librdkafka: AdminClient
) -> None:
    cluster, _ = served
    topic = NewTopic("orders", num_partitions=2, replica_assignment=[[1, 2], [2, 3]])
    done(librdkafka.create_topics([topic]))
    with pytest.raises(KafkaException, match="already exists"):
        done(librdkafka.create_topics([topic]))
    done(librdkafka.create_partitions([NewPartitions("orders", 3)]))
    listed: Any = librdkafka.list_topics(timeout=DEADLINE_S)
    assert listed.cluster_id == CLUSTER_ID
    partitions = listed.topics["orders"].partitions
    assert [partitions[n].replicas for n in (0, 1)] == [[1, 2], [2, 3]]
    assert len(partitions) == 3
    found = done(librdkafka.describe_topics(TopicCollection(["orders"])))
    assert [p.leader.id for p in found.partitions[:2]] == [1, 2]
    nodes = librdkafka.describe_cluster().result(timeout=DEADLINE_S).nodes
    assert sorted(node.id for node in nodes) == [1, 2, 3]
    done(librdkafka.delete_topics(["orders"]))
    assert not cluster.image.topics


def test_librdkafka_reads_and_changes_configurations(
    served: tuple[AdminCluster, str], librdkafka: AdminClient
) -> None:
    cluster, _ = served
    cluster.create("orders", [1])
    change = ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[change])
    done(librdkafka.incremental_alter_configs([topic]))
    found = done(librdkafka.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]))
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("1234", 1)
    rate = ConfigEntry(
        "leader.replication.throttled.rate", "5", incremental_operation=AlterConfigOpType.SET
    )
    broker = ConfigResource(ResourceType.BROKER, "3", incremental_configs=[rate])
    done(librdkafka.incremental_alter_configs([broker]))
    found = done(librdkafka.describe_configs([ConfigResource(ResourceType.BROKER, "3")]))
    assert found["leader.replication.throttled.rate"].value == "5"
    assert found["num.partitions"].is_read_only


def test_librdkafka_elects_preferred_leaders(
    served: tuple[AdminCluster, str], librdkafka: AdminClient
) -> None:
    cluster, _ = served
    cluster.create("orders", [1, 2], [2, 1])
    cluster.core.stop_broker(1)
    cluster.restart(1)
    cluster.core.advance(cluster.core.now_ms + 5_000)
    asked = [ConfluentPartition("orders", 0), ConfluentPartition("orders", 1)]
    elected: Any = librdkafka.elect_leaders(ElectionType.PREFERRED, asked)
    errors = elected.result(timeout=DEADLINE_S)
    codes = {tp.partition: error.name() if error else None for tp, error in errors.items()}
    assert codes == {0: None, 1: "ELECTION_NOT_NEEDED"}
    assert cluster.at("orders").leader == 1


def test_kafka_python_creates_grows_and_deletes_topics(
    served: tuple[AdminCluster, str], python: KafkaAdminClient
) -> None:
    cluster, _ = served
    python.create_topics({"orders": {"assignments": {0: [1, 2], 1: [2, 3]}}})
    python.create_partitions({"orders": {"count": 3, "assignments": [[3, 1]]}})
    (topic,) = python.describe_topics(["orders"])
    replicas = {p["partition_index"]: p["replica_nodes"] for p in topic["partitions"]}
    assert replicas == {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    (by_id,) = python.describe_topics([cluster.topic_id("orders")])
    assert by_id["name"] == "orders"
    page = python.describe_topic_partitions(["orders"], response_partition_limit=2)
    assert len(page["topics"][0]["partitions"]) == 2
    assert page["next_cursor"]["partition_index"] == 2
    described = python.describe_cluster()
    assert (described["cluster_id"], len(described["brokers"])) == (CLUSTER_ID, 3)
    python.delete_topics(["orders"])
    assert python.list_topics() == []
    with pytest.raises(UnknownTopicOrPartitionError):
        python.delete_topics(["orders"])


@pytest.mark.parametrize("incremental", [True, False])
def test_kafka_python_reads_and_changes_configurations(
    served: tuple[AdminCluster, str], python: KafkaAdminClient, incremental: bool
) -> None:
    cluster, _ = served
    cluster.create("orders", [1])
    for kind, name, key in (
        (ConfigResourceType.TOPIC, "orders", "retention.ms"),
        (ConfigResourceType.BROKER, "2", "num.io.threads"),
    ):
        change = PythonResource(kind, name, {key: "4321"})
        python.alter_configs([change], incremental=incremental)
        found = python.describe_configs([PythonResource(kind, name)])
        assert found[kind.name.lower()][name][key]["value"] == "4321"


def test_kafka_python_moves_replicas_and_elects_leaders(
    served: tuple[AdminCluster, str], python: KafkaAdminClient
) -> None:
    cluster, _ = served
    cluster.create("orders", [1, 2], [1, 2])
    cluster.fill("orders", 0, 1e9)
    first = TopicPartition("orders", 0)
    assert python.alter_partition_reassignments({first: [3, 1]}) == {first: None}
    moves = python.list_partition_reassignments()
    assert moves[first]["adding_replicas"] == [3]
    assert moves[first]["removing_replicas"] == [2]
    cluster.core.advance(cluster.core.now_ms + 60_000)
    assert python.list_partition_reassignments() == {}
    assert cluster.at("orders").leader == 1
    python.elect_leaders(0, {"orders": [0]})
    assert cluster.at("orders").leader == 3


def test_kafka_python_describes_and_changes_log_dirs(
    served: tuple[AdminCluster, str], python: KafkaAdminClient
) -> None:
    cluster, _ = served
    cluster.create("orders", [1, 2])
    cluster.fill("orders", 0, 12_345_000.0)
    described = {one["broker"]: one["log_dirs"] for one in python.describe_log_dirs()}
    held = {
        broker: [p["partition_size"] for d in dirs for t in d["topics"] for p in t["partitions"]]
        for broker, dirs in described.items()
    }
    assert held == {1: [12_345_000], 2: [12_345_000], 3: []}
    target = "/b" if cluster.at("orders").log_dir(2) == "/a" else "/a"
    replica = TopicPartitionReplica("orders", 0, 2)
    assert python.alter_replica_log_dirs({replica: target}) == {replica: NoError}
    cluster.core.advance(cluster.core.now_ms + 60_000)
    assert cluster.at("orders").log_dir(2) == target
