"""/healthz, /readyz and /metrics tell the truth, of real brokers that come and go too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.readiness import checked, checked_to_change
from kshunt.backend.api.forwarding.peers import peers_of
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import JournalUnavailable, JournalUnusable
from kshunt.backend.operations.journal.entries import BACKEND_KEY, Heartbeat
from kshunt.backend.operations.lease.lease import LeaseState
from kshunt.backend.operations.lease.membership import Membership
from kshunt.backend.settings import Settings
from tests.support.embedded.background import Running, running
from tests.support.operations.journal_memory import MemoryJournal, MemoryLog, TestClock, self_of
from tests.support.recording.samples import Row, snapshot
from tests.support.serving import serving
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 90.0


@pytest.fixture
def http(tmp_path: Path) -> Iterator[tuple[httpx.Client, Running]]:
    """A client of a backend, and its cluster."""
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", [[1, 2], [2, 3]])
        with serving(cluster.bootstrap_servers, tmp_path) as address:
            transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
            with (
                BackendClient(address) as client,
                httpx.Client(base_url="http://kshunt", transport=transport) as found,
            ):
                client.cluster()
                yield found, cluster


@pytest.mark.parametrize(
    ("seconds", "fresh"), [(0, True), (25, True), (40, False), (-25, True), (-3600, False)]
)
async def test_an_old_look_is_not_taken_for_a_new_one_whichever_way_the_clock_jumps(
    seconds: int, fresh: bool
) -> None:
    settings, clock = Settings("127.0.0.1:1"), TestClock()
    admin = KafkaAdmin(settings)
    backend = Backend(settings, admin, clock, lambda *_: MemoryJournal(MemoryLog(), clock, "a"))
    await backend.hub.publish(snapshot([Row(0, 1)], at_ms=clock.now_ms()))
    clock.seconds += seconds
    assert {one.name: one.ok for one in checked(backend)}["samples"] == fresh
    await admin.close()


def sample(text: str, name: str, **labels: str) -> float:
    """The value of one sample."""
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            if each.name == name and each.labels == labels:
                return each.value
    raise AssertionError(f"{name} {labels} is not there")


def test_a_backend_that_works_is_ready(http: tuple[httpx.Client, Running]) -> None:
    client, _ = http
    assert client.get("/healthz").json() == {"status": "ok"}

    def ready() -> bool:
        return client.get("/readyz").status_code == 200

    wait_until(ready, DEADLINE_S, "it is ready")
    answer = client.get("/readyz").json()
    assert [(each["name"], each["ok"]) for each in answer["checks"]] == [
        ("cluster", True),
        ("samples", True),
    ]
    wait_until(
        lambda: client.get("/readyz/changes").status_code == 200, DEADLINE_S, "it takes changes"
    )
    answer = client.get("/readyz/changes").json()
    assert [each["name"] for each in answer["checks"]] == [
        *("cluster", "samples", "journal", "changes")
    ]
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert sample(metrics.text, "kshunt_ready", check="cluster") == 1
    assert sample(metrics.text, "kshunt_ready", check="changes") == 1
    assert sample(metrics.text, "kshunt_connections") >= 1
    assert sample(metrics.text, "kshunt_connections_turned_away_total", how="refused") == 0
    assert sample(metrics.text, "kshunt_broker_answers", broker="2") == 1
    assert sample(metrics.text, "kshunt_replicas", status="in_sync") >= 4
    assert sample(metrics.text, "kshunt_moving_replicas") == 0
    assert sample(metrics.text, "kshunt_operations", state="running") == 0
    assert 0 <= sample(metrics.text, "kshunt_sample_age_seconds") < 60


def test_brokers_that_do_not_answer_are_told(http: tuple[httpx.Client, Running]) -> None:
    client, cluster = http

    def failing() -> list[str]:
        answer = client.get("/readyz")
        found = [each["name"] for each in answer.json()["checks"] if not each["ok"]]
        assert (answer.status_code == 200) == (not found)
        return found

    wait_until(lambda: not failing(), DEADLINE_S, "it is ready")
    cluster.call(lambda one: one.stop_broker(2, crash=True))

    def second_is_silent() -> bool:
        text = client.get("/metrics").text
        return sample(text, "kshunt_broker_answers", broker="2") == 0

    wait_until(second_is_silent, DEADLINE_S, "one broker is missing")
    assert failing() == []
    for broker in (1, 3):
        cluster.call(partial(EmbeddedCluster.stop_broker, broker=broker, crash=True))
    wait_until(lambda: "cluster" in failing(), DEADLINE_S, "none is left")
    assert client.get("/healthz").status_code == 200
    metrics = client.get("/metrics").text
    assert sample(metrics, "kshunt_ready", check="cluster") == 0
    for broker in (1, 2, 3):
        cluster.call(partial(EmbeddedCluster.start_broker, broker=broker))
    wait_until(lambda: not failing(), DEADLINE_S, "they are back")


async def served(
    log: MemoryLog, clock: TestClock, address: str = ""
) -> tuple[Backend, MemoryJournal]:
    """A backend that has seen its cluster, with its lease kept by hand."""
    settings = Settings("127.0.0.1:1")
    journal = MemoryJournal(log, clock, "one")

    async def cluster_id() -> str:
        return "here"

    backend = Backend(settings, KafkaAdmin(settings), clock, lambda *_: journal, address=address)
    me = self_of("one")
    backend.membership = Membership(cluster_id, lambda *_: journal, me, clock, lambda *_: None)
    await backend.hub.publish(snapshot([Row(0, 1)], at_ms=clock.now_ms()))
    return backend, journal


def to_change(backend: Backend) -> dict[str, bool]:
    return {one.name: one.ok for one in checked_to_change(backend)}


def words_of(backend: Backend) -> str:
    return " ".join(one.words for one in checked_to_change(backend))


async def test_a_backend_whose_journal_is_offline_can_be_looked_at_and_not_asked() -> None:
    log, clock = MemoryLog(), TestClock()
    backend, _ = await served(log, clock)
    assert to_change(backend) == {"journal": False, "changes": False}
    task = asyncio.create_task(backend.membership.run())
    await clock.until(lambda: to_change(backend)["changes"])
    assert backend.membership.duty is LeaseState.IDLE
    assert backend.membership.lease_manager is not None
    backend.membership.lease_manager.want()
    await clock.until(lambda: backend.membership.duty is LeaseState.ACT)
    assert to_change(backend) == {"journal": True, "changes": True}
    log.failing["append"] = JournalUnavailable("It does not answer.")
    await clock.until(lambda: backend.membership.duty is LeaseState.PAUSE)
    assert to_change(backend) == {"journal": False, "changes": False}
    assert "has not confirmed" in words_of(backend)
    await backend.hub.publish(snapshot([Row(0, 1)], at_ms=clock.now_ms(), version=2))
    assert all(one.ok for one in checked(backend))
    log.failing["append"] = JournalUnusable("It was deleted at 127.0.0.1:1.")
    await clock.until(lambda: backend.membership.duty is LeaseState.BLOCKED)
    assert to_change(backend) == {"journal": False, "changes": False}
    assert "127.0.0.1" not in words_of(backend)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await backend.admin.close()


@pytest.mark.parametrize(
    ("host", "address", "ok"),
    [
        ("host", "unix:/run/two.sock", True),
        ("other", "unix:/run/two.sock", False),
        ("other", "https://two.example:8443", True),
        ("other", "https://three.example:8443", False),
    ],
)
async def test_a_stand_by_says_whether_it_can_pass_changes_on(
    host: str, address: str, ok: bool
) -> None:
    log, clock = MemoryLog(), TestClock()
    backend, _ = await served(log, clock)
    backend.peers = peers_of(["https://two.example:8443"])
    task = asyncio.create_task(backend.membership.run())
    await clock.passes(1.0)
    beat = Heartbeat("two", host, address, 1, clock.now_ms(), "boot")
    log.put("two", {BACKEND_KEY: beat.body()})
    await clock.until(lambda: backend.membership.actor is not None)
    assert to_change(backend) == {"journal": True, "changes": ok}
    assert "two" not in words_of(backend)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await backend.admin.close()
