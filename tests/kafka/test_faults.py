"""What production does to a backend while it moves data, and that nothing is lost by it.

One throttled move on real brokers, a backend that reaches them over a network of its own, and a
dashboard. Brokers restart in turn, the network is cut, and the recorder's disk is full. The clock
jumps by an hour and back. The test stops the backend and starts another one. `-s` prints what the
dashboard showed. `KSHUNT_CUT_S=60` cuts the network for a minute.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from textual.pilot import Pilot

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.errors import KshuntError
from kshunt.tui.app import KshuntApp
from tests.support.audit_checker import RequestedMove, problems
from tests.support.brokers.launcher import RealKafka
from tests.support.faults.cut_network import Network, network
from tests.support.faults.truth_ground import cluster_seen
from tests.support.serving import serve_process
from tests.support.topics import create_topic, produce
from tests.support.tui.app import frame
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

TOPIC: Final = "ledger"
PARTITIONS, RECORDS, RECORD_BYTES = 4, 800, 50_000
MOVED: Final = {TopicPartition(TOPIC, number): (2, 3) for number in range(PARTITIONS)}
THROTTLE_BYTES_PER_S: Final = 100_000
"""Kafka lets a whole batch of each partition through every eleven seconds: 160 MB take seven
minutes, longer than all that is done to them."""
FAST_BYTES_PER_S: Final = 50_000_000
CUT_S: Final = float(os.environ.get("KSHUNT_CUT_S", "20"))
DEADLINE_S, STOP_S = 90.0, 20.0


def say(text: str) -> None:
    """For who reads along."""
    sys.stdout.write(f"{text}\n")


@dataclass
class Scene:
    """A cluster, a way to it, and a backend on a socket."""

    kafka: RealKafka
    way: Network
    folder: Path

    @property
    def socket(self) -> Path:
        return self.folder / "kshunt.sock"

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    def ready(self) -> tuple[int, str]:
        """What `/readyz` says: the status, and what is not as it should be."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        with httpx.Client(transport=transport, base_url="http://kshunt", timeout=10.0) as client:
            answer = client.get("/readyz")
        wrong = [f"{c['name']}: {c['words']}" for c in answer.json()["checks"] if not c["ok"]]
        return answer.status_code, "; ".join(wrong)


@dataclass
class Dashboard:
    """A dashboard that is watched throughout."""

    app: KshuntApp
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        return frame(self.app)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something; with what is shown, where it does not come."""
        try:
            await wait_until_async(condition, DEADLINE_S, what)
        except AssertionError:
            say(self.text)
            raise
        await self.pilot.pause()

    async def words(self, *words: str) -> None:
        """Wait until all of these are on the screen."""
        await self.until(lambda: all(w in self.text for w in words), f"{words} is shown")

    def tell(self, when: str) -> None:
        """Print the head of the screen."""
        say(f"--- {when}")
        say("\n".join(line.rstrip() for line in self.text.splitlines()[:12]))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with RealKafka(far=True) as kafka, network(kafka.far_ports) as way:
        create_topic(kafka.bootstrap_servers, TOPIC, [[1, 2]] * PARTITIONS)
        for number in range(PARTITIONS):
            produce(kafka.bootstrap_servers, TOPIC, RECORDS, RECORD_BYTES, number)
        yield Scene(kafka, way, tmp_path_factory.mktemp("faults"))


@asynccontextmanager
async def dashboard(address: str) -> AsyncIterator[Dashboard]:
    """The dashboard, once it shows the cluster."""
    app = KshuntApp(address)
    async with app.run_test(size=(100, 30)) as pilot:
        found = Dashboard(app, pilot)
        await found.until(lambda: app.store.facts is not None, "the cluster is shown")
        yield found


def the_move(client: BackendClient) -> Operation:
    """The only operation there is."""
    (found,) = client.operations.list()
    return found


async def brokers_restart_in_turn(scene: Scene, shown: Dashboard, client: BackendClient) -> None:
    for broker in scene.kafka.broker_ids:
        scene.kafka.stop_broker(broker)
        await shown.words(f"1 of 3 brokers down ({broker})")
        shown.tell(f"broker {broker} is down")
        scene.kafka.start_broker(broker)
        await shown.words("3 brokers up")
        assert shown.app.store.scene.live
        assert the_move(client).state is OperationState.RUNNING
    await shown.until(lambda: scene.ready()[0] == 200, "the backend is ready again")


async def the_network_is_cut(scene: Scene, shown: Dashboard, client: BackendClient) -> None:
    scene.way.cut()
    begun_s = time.monotonic()
    await shown.words("stale")
    assert scene.ready()[0] == 503
    shown.tell(f"the network is cut; /readyz: {scene.ready()[1]}")
    with pytest.raises(KshuntError) as refused:
        client.operations.pause(the_move(client).id)
    say(f"a pause meanwhile: {refused.value.message} {refused.value.advice}")
    await shown.until(lambda: time.monotonic() - begun_s > CUT_S, "it is cut long enough")
    assert shown.app.store.scene.live
    scene.way.mend()
    await shown.words("live", "3 brokers up")
    await shown.until(lambda: scene.ready()[0] == 200, "the backend is ready again")
    shown.tell("the network is back")


async def the_disk_is_full(scene: Scene, shown: Dashboard, client: BackendClient, pid: int) -> None:
    def recorded() -> tuple[int, str]:
        samples = client.pipeline.status().samples
        assert samples is not None
        return samples.written_ms or 0, samples.problem

    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    await shown.until(lambda: recorded()[1], "the recorder says that it cannot write")
    before, problem = recorded()
    await shown.words("Samples are not recorded")
    shown.tell(f"the disk is full: {problem}")
    assert the_move(client).state is OperationState.RUNNING
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    await shown.until(lambda: not recorded()[1], "it writes again")
    await shown.until(lambda: recorded()[0] > before, "what waited is written")


async def the_clock_jumps(scene: Scene, shown: Dashboard, client: BackendClient, pid: int) -> None:
    for number, words in ((signal.SIGUSR1, "an hour on"), (signal.SIGUSR2, "an hour back")):
        taken_ms = shown.app.store.scene.snapshot.taken_ms  # type: ignore[union-attr]
        os.kill(pid, number)

        def jumped(before_ms: int = taken_ms) -> bool:
            snapshot = shown.app.store.scene.snapshot
            return snapshot is not None and abs(snapshot.taken_ms - before_ms) > 3_000_000

        await shown.until(jumped, f"the clock is {words}")
        await shown.words("live", "3 brokers up")
        await shown.until(lambda: scene.ready()[0] == 200, "the backend is ready")
        shown.tell(f"the clock jumped {words}")
        assert the_move(client).state is OperationState.RUNNING


def replicas_of(client: BackendClient) -> set[tuple[int, int]]:
    """Partition and broker of each replica of the topic."""
    snapshot = next(iter(client.snapshots()))
    rows = snapshot.replicas
    ours = rows.topic_index == snapshot.topics.index(TOPIC)
    return set(zip(rows.partition[ours].tolist(), rows.broker[ours].tolist(), strict=True))


async def test_nothing_that_production_does_loses_anything(scene: Scene) -> None:
    bootstrap, options = scene.kafka.far_bootstrap, ["--samples", str(scene.folder / "samples")]
    module = "tests.support.faults.jumping_backend"
    with ExitStack() as first:
        process = first.enter_context(
            serve_process(bootstrap, scene.socket, *options, module=module)
        )
        client = first.enter_context(BackendClient(scene.address))
        plan = ReassignmentPlan(MOVED)
        answer = client.reassignments.start(
            plan, Change(who="ada", reason="a bad day"), throttle_bytes_per_s=THROTTLE_BYTES_PER_S
        )
        async with dashboard(scene.address) as shown:
            await shown.words("Moving 4 partitions")
            await brokers_restart_in_turn(scene, shown, client)
            await the_network_is_cut(scene, shown, client)
            await the_disk_is_full(scene, shown, client, process.pid)
            await the_clock_jumps(scene, shown, client, process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S) == 0
            await shown.words("CONNECTION LOST")
            shown.tell("the backend was told to stop")
            first.close()
            with (
                serve_process(bootstrap, scene.socket, *options),
                BackendClient(scene.address) as another,
            ):
                await shown.words("live", "Moving 4 partitions")
                shown.tell("another backend has taken over")
                # It has been slow for long enough.
                rates = another.throttles.list().rates
                faster = {
                    broker: type(one.rate)(FAST_BYTES_PER_S, FAST_BYTES_PER_S)
                    for broker, one in rates.items()
                }
                another.throttles.alter_rates(faster, Change(who="ada", reason="enough"))
                await shown.until(
                    lambda: by_id(another, answer.operation_id).state.ended,
                    "the move has ended",
                )
                ended_well(another, answer.operation_id)
                the_audit_is_true(scene, another, answer.operation_id)
                await shown.words("Nothing moves")
                shown.tell("at the end")


def by_id(client: BackendClient, operation_id: str | None) -> Operation:
    """One operation."""
    return next(one for one in client.operations.list() if one.id == operation_id)


def ended_well(client: BackendClient, operation_id: str | None) -> None:
    """The move is done, its throttles are gone, and who asked for it is known."""
    operation = by_id(client, operation_id)
    assert operation.state is OperationState.DONE, operation.outcome
    assert replicas_of(client) == {
        (partition.partition, broker) for partition, to in MOVED.items() for broker in to
    }
    throttles = client.throttles.list()
    assert not throttles.replicas
    assert all(one.rate.leader_bytes_per_s is None for one in throttles.rates.values())
    _, lines = client.audit.rows(operation_id=operation.id)
    first = lines[0]
    assert isinstance(first, AuditEntry)
    assert (first.who, first.reason) == ("ada", "a bad day")
    assert [one.kind.value for one in client.operations.list()].count("reassign") == 1


def the_audit_is_true(scene: Scene, client: BackendClient, operation_id: str | None) -> None:
    """Every line, also of the hours that the clock jumped to, is what the cluster says."""
    _, rows = client.audit.rows()
    lines = [row.body() for row in rows if isinstance(row, AuditEntry)]
    assert len(lines) == len(rows)
    moves = {
        (TOPIC, partition.partition): RequestedMove((1, 2), target)
        for partition, target in MOVED.items()
    }
    admin = AdminClient({"bootstrap.servers": scene.kafka.bootstrap_servers, "log_level": 0})
    there = cluster_seen(admin, TOPIC)
    assert problems(lines, there, {operation_id or "": moves}) == []
