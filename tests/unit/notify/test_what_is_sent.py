"""What a backend tells its webhooks: operations, drift, orphans, and a cluster that is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.readiness import answers
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.notify.changes import SILENT_S
from kshunt.backend.operations.reassignment.starting import ReassignRequest
from kshunt.backend.operations.throttles.repair import change_id
from kshunt.backend.serve.webhook_events import notifying_webhooks
from kshunt.backend.settings import Settings
from tests.support.access.keys import KEYS
from tests.support.embedded.background import Running, running
from tests.support.faults.kills import SLOW, TARGET, prepared
from tests.support.notify.messages import QUICK, Desk, target
from tests.support.notify.receiver import Received, Receiver, receiving
from tests.support.topics import create_topic
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
TOPIC = "told"
HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[Running]:
    with running(ClusterSpec(brokers=plain_brokers(3))) as found:
        yield found


@asynccontextmanager
async def notifying_backend(servers: str, folder: Path, url: str) -> AsyncIterator[Backend]:
    """A backend in this process that tells one webhook, and looks for orphans often."""
    settings, clock = Settings(servers), SystemClock()

    def open_journal(cluster_id: str, backend_id: str) -> TopicJournal:
        return TopicJournal(
            servers,
            client_config({}),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
            keys=KEYS,
        )

    admin = KafkaAdmin(settings, owned_throttles=True)
    await admin.connect()
    backend = Backend(
        settings, admin, clock, open_journal, keys=KEYS, address=f"unix:{folder}/none"
    )
    admin.guard = backend.membership.guard
    notifier = Desk(folder, QUICK).notifier(target(url))
    async with notifying_webhooks(backend, notifier, orphans_s=0.3):
        await backend.start()
        try:
            yield backend
        finally:
            await backend.stop()


async def told(receiver: Receiver, kind: str, count: int = 1) -> Received:
    """The newest message of the type `kind`, once at least `count` have come."""

    def found() -> list[Received]:
        return [one for one in tuple(receiver.received) if one.document["type"] == kind]

    words = f"{kind} is told; there are {receiver.types}"
    await wait_until_async(lambda: len(found()) >= count, DEADLINE_S, words)
    return found()[-1]


def set_rate(servers: str, broker: int, rate: int) -> None:
    """As somebody else does it."""
    entry = ConfigEntry(FOLLOWER_RATE, str(rate), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    client: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    client.incremental_alter_configs([resource])[resource].result(DEADLINE_S)


async def test_operations_drift_and_orphans_are_told(cluster: Running, tmp_path: Path) -> None:
    servers = cluster.bootstrap_servers
    # Its lists name replicas that no move justifies.
    await prepared(servers, cluster.call(lambda one: one.world.cluster_id), TOPIC, 3)
    with receiving() as receiver:
        async with notifying_backend(servers, tmp_path, receiver.url) as backend:
            orphan = (await told(receiver, "orphan.appeared")).document
            assert f"topic {TOPIC}" in orphan["text"]
            assert orphan["cluster"]
            await backend.ready()
            assert (await told(receiver, "backend.acts")).document["data"]["operations"] == []
            ids = [change_id(one) for one in await backend.throttle_repair.orphans()]
            await backend.throttle_repair.remove_orphans(ids, Change(who="ada"))
            removed = (await told(receiver, "operation.ended")).document["data"]["operation"]
            assert (removed["kind"], removed["who"]) == ("orphans", "ada")
            await told(receiver, "orphan.gone")
            moves = {TopicPartition(TOPIC, n): brokers for n, brokers in TARGET.items()}
            request = ReassignRequest(ReassignmentPlan(moves), throttle_bytes_per_s=SLOW)
            assert (await backend.reassignments.start(request)).operation_id
            await told(receiver, "operation.started", 2)
            await asyncio.to_thread(set_rate, servers, 3, 5_000)
            drift = (await told(receiver, "drift.appeared")).document
            assert drift["data"]["drift"][0]["broker"] == 3
            assert "5 kB/s" in drift["text"]
            await asyncio.to_thread(set_rate, servers, 3, SLOW)
            await told(receiver, "drift.gone")
        await told(receiver, "backend.stopped")
    assert receiver.types.count("orphan.appeared") == 1
    assert receiver.types[-1] == "backend.stopped"
    last = receiver.received[-1].document["data"]
    assert [one["kind"] for one in last["operations"]] == ["reassign"]


async def test_a_cluster_that_is_silent_is_told_and_that_it_is_back(
    cluster: Running, tmp_path: Path
) -> None:
    # A broker without a replica is asked for none, and so is never silent.
    await asyncio.to_thread(create_topic, cluster.bootstrap_servers, TOPIC, [[1, 2], [2, 3]])
    with receiving() as receiver:
        async with notifying_backend(cluster.bootstrap_servers, tmp_path, receiver.url) as backend:
            await wait_until_async(lambda: answers(backend), DEADLINE_S, "the cluster is seen")
            for broker in (1, 2, 3):
                cluster.call(partial(EmbeddedCluster.stop_broker, broker=broker, crash=True))
            silent = (await told(receiver, "cluster.unreachable")).document
            assert "No broker answers" in silent["text"]
            for broker in (1, 2, 3):
                cluster.call(partial(EmbeddedCluster.start_broker, broker=broker))
            await told(receiver, "cluster.reachable")
    assert SILENT_S < DEADLINE_S
    assert receiver.types.count("cluster.unreachable") == 1


async def test_a_deletion_of_partitions_is_told_step_by_step(tmp_path: Path) -> None:
    configs = {
        "delete.topic.partition.enable": "true",
        "delete.topic.partition.interval.delay.ms": "1000",
    }
    with (
        running(ClusterSpec(plain_brokers(3), static=configs)) as cluster,
        receiving() as receiver,
    ):
        servers = cluster.bootstrap_servers
        await asyncio.to_thread(create_topic, servers, TOPIC, [[1, 2], [2, 3], [3, 1]])
        async with notifying_backend(servers, tmp_path, receiver.url) as backend:
            await backend.ready()
            await told(receiver, "backend.acts")
            await wait_until_async(lambda: answers(backend), DEADLINE_S, "the cluster is seen")
            await shrink(backend, HOUR_MS)
            later = (await told(receiver, "partitions.readonly")).document
            assert f"Topic {TOPIC}: 1 partition read-only until " in later["text"]
            assert (later["data"]["partitions"], later["data"]["readonly"]) == (3, 1)
            cluster.call(partial(EmbeddedCluster.stop_broker, broker=3))
            await shrink(backend, 0)
            await told(receiver, "partitions.deleting")
            cluster.call(partial(EmbeddedCluster.start_broker, broker=3))
            gone = (await told(receiver, "partitions.deleted")).document
            assert gone["data"]["partitions"] == 2
    told_of = [one for one in receiver.types if one.startswith("partitions.")]
    assert told_of == ["partitions.readonly", "partitions.deleting", "partitions.deleted"]


async def shrink(backend: Backend, delay_ms: int) -> None:
    """Let the topic keep two partitions."""
    wanted = {TOPIC: DeletePartitions(2, delay_ms)}
    await backend.deletions.delete(wanted, Change(), timeout_s=DEADLINE_S)
