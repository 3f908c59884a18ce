"""A broker stops while partitions of it are deleted (KIP-694): what a backend serves and shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.tui.app import KshuntApp
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.topics import create_topic
from tests.support.tui.app import frame
from tests.support.waiting import wait_until, wait_until_async

pytestmark = pytest.mark.slow

ENABLE = "delete.topic.partition.enable"
DEADLINE_S = 60.0
HOUR_MS = 3_600_000
GONE = (TopicPartition("orders", 2), TopicPartition("orders", 3))


@pytest.fixture
def embedded() -> Iterator[Running]:
    """Broker 3 hosts nothing but the two partitions that are to go."""
    configs = {ENABLE: "true", "delete.topic.partition.interval.delay.ms": "1000"}
    with running(ClusterSpec(plain_brokers(3), seed=5, static=configs)) as handle:
        create_topic(handle.bootstrap_servers, "orders", [[1, 2], [2, 1], [1, 3], [3, 2]])
        yield handle


@pytest.fixture
def address(embedded: Running, tmp_path: Path) -> Iterator[str]:
    with serving(embedded.bootstrap_servers, tmp_path) as served:
        yield served


def shrink(address: str, delay_ms: int) -> None:
    with BackendClient(address) as client:
        client.shrinks.delete_partitions(
            {"orders": DeletePartitions(2, delay_ms)}, Change(who="ada@bastion", reason="too many")
        )


def rows(address: str, mode: str) -> list[dict[str, Any]]:
    """What `GET /v1/replicas?mode=` answers."""
    transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
    with httpx.Client(transport=transport, base_url="http://kshunt") as http:
        found: list[dict[str, Any]] = http.get(f"/v1/replicas?mode={mode}").json()["replicas"]
        return found


def metrics(address: str) -> str:
    transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
    with httpx.Client(transport=transport, base_url="http://kshunt") as http:
        return http.get("/metrics").text


async def shown(app: KshuntApp, holds: Callable[[str], bool], what: str) -> str:
    await wait_until_async(lambda: holds(frame(app)), DEADLINE_S, what)
    return frame(app)


async def test_a_broker_stops_during_a_deletion(embedded: Running, address: str) -> None:
    await asyncio.to_thread(shrink, address, HOUR_MS)
    app = KshuntApp(address)
    async with app.run_test(size=(120, 36)):
        text = await shown(app, lambda t: "2 partitions of orders leave in" in t, "they leave")
        assert "as ada@bastion asked" in text
        read_only = await asyncio.to_thread(rows, address, "readonly")
        assert {TopicPartition(one["topic"], one["partition"]) for one in read_only} == set(GONE)
        assert all(one["deletes_ms"] > 0 for one in read_only)
        assert 'kshunt_partitions{mode="readonly"} 2.0' in await asyncio.to_thread(metrics, address)
        await asyncio.to_thread(embedded.call, lambda cluster: cluster.stop_broker(3))
        await shown(app, lambda t: "1 of 3 brokers down (3)" in t, "broker 3 is down")
        await asyncio.to_thread(shrink, address, 0)
        text = await shown(app, lambda t: "deletion waits" in t, "the deletion waits")
        assert "2 partitions of orders are being deleted" in text
        assert "0 offline" in text
        assert "without a leader" not in text
        assert "never" not in text
        waiting = await asyncio.to_thread(rows, address, "none")
        causes = {(one["partition"], one["broker"]): one["cause"] for one in waiting}
        assert causes[2, 3] == causes[3, 3] == "deletion_waits"
        assert "waits for broker 3" in next(one["reason"] for one in waiting if one["broker"] == 3)
        await asyncio.to_thread(embedded.call, lambda cluster: cluster.start_broker(3))
        await shown(app, lambda t: "being deleted" not in t and "stuck" not in t, "they are gone")
    wait_until(lambda: not rows(address, "none"), DEADLINE_S, "nothing is being deleted")
