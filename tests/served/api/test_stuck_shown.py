"""A stuck replica as users meet it: in the API, in the stream, in the tool."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, format_plan
from kshunt.backend.domain.replicas.snapshot import Snapshot, stuck_rows
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.embedded.scenario.model import Scenario, TopicSpec
from kshunt.backend.operations.ownership.cells import ListKey
from kshunt.backend.operations.ownership.ownership import FoundSettings, Ownership, Shares
from kshunt.backend.operations.throttles.sampler_needs import needed_lists
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from kshunt.tui.facts.done_words import HELD_TEXT, done_cells
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.text.glyphs import ASCII
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.snapshots import replicas_of, snapshot_of
from tests.support.waiting import wait_until

MB = 1_000_000
MOVING = TopicPartition("t", 0)
NEW = 4
FLOOR_BYTES_PER_S = 1_000
"""The least that a move may be started with; a replica under it is held."""
IN_TIME_S = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    """Four brokers; t has three replicas on the first three."""
    topic = TopicSpec(
        "t", 2, bytes_per_partition=300 * MB, size_spread=0.0, brokers=(1, 2, 3), leaders=(1,)
    )
    with running(Scenario("mine", "t", "a", plain_brokers(4), topics=(topic,))) as handle:
        yield handle


@pytest.fixture(scope="module")
def address(cluster: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A backend of that cluster, with a move that its throttle holds."""
    folder = tmp_path_factory.mktemp("stuck")
    with serving(cluster.bootstrap_servers, folder) as served:
        with BackendClient(served) as client:
            plan = ReassignmentPlan({MOVING: (1, 2, NEW)})
            answer = client.reassignments.start(plan, throttle_bytes_per_s=FLOOR_BYTES_PER_S)
            assert answer.failures == ()
        wait_until(
            lambda: rows(served, "stuck=true&topic=t") != [], IN_TIME_S, "a replica is stuck"
        )
        yield served


def rows(address: str, query: str) -> list[dict[str, Any]]:
    transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
    with httpx.Client(transport=transport, base_url="http://kshunt") as http:
        found: list[dict[str, Any]] = http.get(f"/v1/replicas?{query}").json()["replicas"]
        return found


def test_the_api_names_cause_reason_action_and_the_rate_that_would_do(address: str) -> None:
    (row,) = rows(address, "stuck=true&topic=t")
    assert (row["topic"], row["partition"], row["broker"]) == ("t", 0, NEW)
    assert row["cause"] == "throttle_floor"
    assert row["stuck"]
    assert row["never"]
    assert "is at the floor" in row["reason"]
    (leader, follower) = row["rates"]
    assert (leader["broker"], follower["broker"]) == (1, NEW)
    for rate in row["rates"]:
        assert rate["has_bytes_per_s"] == FLOOR_BYTES_PER_S < rate["needs_bytes_per_s"]
        assert f"to {rate['needs_bytes_per_s']} B/s" in row["action"]
    others = rows(address, "stuck=false&topic=t")
    assert len(others) == 6
    assert all(one["cause"] is one["reason"] is None and not one["stuck"] for one in others)


def test_the_stream_carries_the_cause_and_the_words(address: str) -> None:
    with BackendClient(address) as client:
        snapshot: Snapshot = next(client.snapshots())
    (row,) = stuck_rows(snapshot.replicas).nonzero()[0].tolist()
    why = snapshot.why(row)
    assert why is not None
    assert why == snapshot.explained[MOVING, NEW]
    assert why.cause is Cause.THROTTLE_FLOOR


def test_progress_says_why_through_a_backend_and_alone_only_how_far(
    cluster: Running, address: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(format_plan({MOVING: (1, 2, NEW)}))

    def progress(*where: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kshunt", "kafka-reassign-partitions", "--progress"]
        command += ["--reassignment-json-file", str(plan), *where]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    said = progress("--backend", address)
    assert (said.returncode, said.stderr) == (2, "")
    lines = said.stdout.splitlines()
    # A forecast may be there already, below an empty line, or not yet.
    *table, last = itertools.takewhile(bool, lines)
    assert table[-1].startswith("t          0          4       Behind: ")
    assert last.startswith("  Stuck (throttle_floor): The throttle of its move is at the floor")
    document = json.loads(progress("--backend", address, "--json").stdout)
    assert [row["cause"] for row in document["rows"]] == [None, None, "throttle_floor"]
    alone = progress("--bootstrap-server", cluster.bootstrap_servers)
    assert len(alone.stdout.splitlines()) == len(table)


def test_a_destination_that_is_down_is_the_cause_until_it_is_back(
    cluster: Running, address: str
) -> None:
    async def stop(running: Any) -> None:
        await running.stop_broker(NEW)

    async def start(running: Any) -> None:
        await running.start_broker(NEW)

    cluster.call(stop)
    wait_until(lambda: causes(address) == ["broker_down"], IN_TIME_S, "its broker is down")
    cluster.call(start)
    wait_until(lambda: causes(address) == ["throttle_floor"], IN_TIME_S, "it is held again")


def causes(address: str) -> list[str]:
    """Of the topic that moves: the journal has replicas of its own."""
    return [row["cause"] for row in rows(address, "stuck=true&topic=t")]


def test_the_rate_that_is_named_sets_it_free(address: str) -> None:
    (row,) = rows(address, "stuck=true&topic=t")
    needs = max(rate["needs_bytes_per_s"] for rate in row["rates"])
    with BackendClient(address) as client:
        rate = ThrottledRate(needs, needs)
        assert client.throttles.alter_rates(dict.fromkeys((1, NEW), rate)).failures == ()
    wait_until(lambda: causes(address) == [], IN_TIME_S, "nothing is stuck")


def test_what_a_pause_holds_is_paused_and_not_stuck(address: str) -> None:
    with BackendClient(address) as client:
        (operation,) = (one for one in client.operations.list() if one.partitions == (MOVING,))
        assert client.operations.pause(operation.id).failures == ()
        wait_until(lambda: why_not(address) == "paused", IN_TIME_S, "it is held on purpose")
        assert rows(address, "stuck=true&topic=t") == []
        (row,) = (one for one in rows(address, "topic=t&moving=true") if one["broker"] == NEW)
        assert not row["stuck"]
        assert not row["never"]
        assert row["reason"].startswith("The operation that moves it is paused")
        wait_until(lambda: held_cells(client) == [HELD_TEXT], IN_TIME_S, "its end is not told")
        assert Facts(next(client.snapshots())).summary.stuck_replicas == 0
        assert client.operations.resume(operation.id).failures == ()
    wait_until(lambda: why_not(address) != "paused", IN_TIME_S, "it goes on")


def held_cells(client: BackendClient) -> list[str]:
    """What the head says of the end."""
    snapshot = next(client.snapshots())
    return [cell.text for cell in done_cells(Facts(snapshot).summary.end, 0, ASCII)]


def why_not(address: str) -> str | None:
    found = rows(address, "topic=t&moving=true")
    return next((row["cause"] for row in found if row["broker"] == NEW), None)


# What the parts agree on


def test_whole_partitions_are_looked_at_where_something_may_be_wrong() -> None:
    table = {(0, number, broker): (0, True, 0.0) for number in range(6) for broker in (1, 7)}
    table[0, 1, 7] = (5, False, 0.0)
    snapshot = snapshot_of(replicas_of(table))
    for row in range(len(snapshot.replicas)):
        snapshot.replicas.cause[row] = 0
    snapshot.replicas.follower_throttled[6] = True
    found = concerned_rows(snapshot, [(TopicPartition("a", 5), 7), (TopicPartition("gone", 0), 1)])
    assert found.tolist() == [2, 3, 6, 7, 10, 11]
    assert focused(snapshot, found).replicas.partition.tolist() == [1, 1, 3, 3, 5, 5]
    calm = snapshot_of(replicas_of({(0, 0, 1): (0, True, 0.0)}))
    assert concerned_rows(calm, ()).tolist() == []


def test_what_running_operations_hold_is_needed_and_what_they_left_is_not() -> None:
    cell = ("t", ListKey.FOLLOWERS)
    shares = Shares({}, {cell: frozenset({(0, 4)})})
    held = Ownership().record("a", shares, FoundSettings({}, {cell: ReplicaSet()})).after
    assert needed_lists(held) == {"t": ThrottledReplicas(followers=ReplicaSet(frozenset({(0, 4)})))}
    present = FoundSettings({}, {cell: ReplicaSet(frozenset({(0, 4)}))})
    lifted = (
        held.confirm(present)
        .lift("a", present)
        .after.confirm(FoundSettings({}, {cell: ReplicaSet()}))
    )
    assert needed_lists(lifted) == {}
    assert needed_lists(Ownership()) == {}
