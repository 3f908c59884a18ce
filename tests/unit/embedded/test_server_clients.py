"""Unmodified clients on the embedded listeners: a small cluster that never changes.

What it answers is written down here; librdkafka, kafka-python, Apache's Java tools and our own
admin layer must each find exactly that.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.settings import Settings
from kshunt.backend.wire import kip_requests
from tests.support.embedded.connection import connected
from tests.support.embedded.loop_thread import DEADLINE_S
from tests.support.embedded.unchanging import (
    ADDING,
    CLUSTER_ID,
    CONTROLLER,
    METADATA,
    MODES,
    TOPICS,
    DemoCluster,
    demo_cluster,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DemoCluster]:
    with demo_cluster() as running:
        yield running


def librdkafka(cluster: DemoCluster, more: Mapping[str, Any] | None = None) -> AdminClient:
    return AdminClient(
        {"log_level": 0, "bootstrap.servers": cluster.bootstrap_servers, **(more or {})}
    )


def test_librdkafka_finds_the_cluster(cluster: DemoCluster) -> None:
    admin = librdkafka(cluster)
    listed: Any = admin.list_topics(timeout=DEADLINE_S)
    assert {b.id: b.port for b in listed.brokers.values()} == {
        id: b.port for id, b in cluster.brokers.items()
    }
    assert listed.cluster_id == CLUSTER_ID
    assert listed.controller_id == CONTROLLER
    found = {
        name: [topic.partitions[p].replicas for p in sorted(topic.partitions)]
        for name, topic in listed.topics.items()
    }
    assert found == TOPICS
    assert listed.topics["events"].partitions[0].isrs == [3, 1]
    assert all(p.error is None for t in listed.topics.values() for p in t.partitions.values())
    described = admin.describe_cluster().result(timeout=DEADLINE_S)
    assert described.cluster_id == CLUSTER_ID
    assert described.controller.id == CONTROLLER
    assert {node.id: node.rack for node in described.nodes} == {1: "r1", 2: "r2", 3: "r3"}


def test_kafka_python_finds_the_cluster(cluster: DemoCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        assert sorted(admin.list_topics()) == sorted(TOPICS)
        described = admin.describe_cluster()
        assert (described["cluster_id"], described["controller_id"]) == (CLUSTER_ID, CONTROLLER)
        ongoing = admin.list_partition_reassignments()
        assert [(tp.topic, tp.partition) for tp in ongoing] == list(ADDING)
    finally:
        admin.close()


async def test_our_admin_reads_the_cluster(cluster: DemoCluster) -> None:
    admin = KafkaAdmin(Settings(cluster.bootstrap_servers))
    try:
        await admin.connect()
        state = await admin.cluster.describe(timeout_s=DEADLINE_S)
        assert (state.cluster_id, state.controller) == (CLUSTER_ID, CONTROLLER)
        states = partition_states(state.assignment)
        replicas = {(tp.topic, tp.partition): list(s.replicas) for tp, s in states.items()}
        assert replicas == {(t, p): r for t, all in TOPICS.items() for p, r in enumerate(all)}
        ongoing = await admin.reassignments.ongoing(timeout_s=DEADLINE_S)
        moving = TopicPartition("events", 0)
        assert {tp: list(move.adding) for tp, move in ongoing.items()} == {moving: [2]}
        asked = columns_of([TopicPartition("orders", 0), moving])
        for broker, ends in {1: [5000, 12], 2: [5000, 8], 3: [-1, 12]}.items():
            offsets = await admin.logs.end_offsets(broker, asked, timeout_s=DEADLINE_S)
            assert sorted(offsets.log_end_offset.tolist()) == sorted(ends)
    finally:
        await admin.close()


@pytest.mark.conforms("kip-694:metadata-shown")
async def test_what_they_all_read_past_holds_the_mode(cluster: DemoCluster) -> None:
    async with connected(cluster.brokers[1]) as client:
        client.ask(1, METADATA, version=12, topics=None)
        _, answer = await client.answer()
        assert kip_requests.read_modes(answer[1:], 12) == MODES
