"""One key opens the change that the diagnosis proposes, filled in with the value that it found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.replicas.expected_end_values import (
    EVERYTHING,
    ExpectedEnd,
    Resource,
    ResourceKind,
    Shortage,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, RateNeed, Stuck, StuckEvidence
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE, ThrottledRate
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.dialogs.attention_list import AttentionScreen
from kshunt.tui.facts.moves.needed_rates import needed_rates
from kshunt.tui.facts.row_keys import ReplicaKey
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.tui.tables import choose

ORDERS = TopicPartition("orders", 0)
TOO_LOW = Stuck(
    ORDERS,
    5,
    Cause.THROTTLE_TOO_LOW,
    (
        RateNeed(2, LEADER_RATE, 25_000_000, 30_000_000, 34_123_456),
        RateNeed(5, FOLLOWER_RATE, 25_000_000, 30_000_000, 33_000_000),
    ),
    StuckEvidence(),
)
DOWN = Stuck(TopicPartition("orders", 2), 3, Cause.BROKER_DOWN)


def ailing(*stuck: Stuck) -> ScriptedCluster:
    cluster = incident()
    running_move(cluster)
    cluster.step()
    cluster.stuck = {(one.partition, one.broker): one for one in stuck}
    return cluster


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The overview while one replica is stuck under a throttle, and another on a dead broker."""
    cluster = ailing(TOO_LOW, DOWN)
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as running:
        await running.until(lambda: "2 stuck" in running.frame(), "it is seen")
        yield running


def test_the_rates_are_those_that_the_diagnosis_found_and_never_less() -> None:
    snapshot = ailing(TOO_LOW, DOWN).snapshot()
    rate = 25_000_000
    assert needed_rates(snapshot) == {
        2: ThrottledRate(34_200_000, rate),
        5: ThrottledRate(rate, 33_000_000),
    }
    assert needed_rates(ailing(DOWN).snapshot()) == {}


def test_what_never_arrives_counts_with_its_shortage() -> None:
    snapshot = ailing().snapshot()
    resource = Resource(ResourceKind.LEADER_THROTTLE, (3,))
    for needs, found in ((55_000_000, {3: ThrottledRate(55_000_000, 25_000_000)}), (None, {})):
        end = ExpectedEnd(1, 6, never=6, shortage=Shortage(resource, 1, 2, needs))
        assert needed_rates(replace(snapshot, expected_ends={EVERYTHING: end})) == found
    link = Shortage(Resource(ResourceKind.LINK, (3, 4)), 1, 2, 55_000_000)
    end = ExpectedEnd(1, 6, never=6, shortage=link)
    assert needed_rates(replace(snapshot, expected_ends={EVERYTHING: end})) == {}


async def test_the_most_urgent_thing_is_fixed_from_any_view_in_two_keys(shown: Shown) -> None:
    lines = [line for line in shown.lines() if "2 stuck: broker down" in line]
    assert any(line.endswith(" F") for line in lines), "the line says it"
    await shown.press("3", "F")
    await shown.dialog(ConfirmScreen)
    assert "34.2 MB/s" in shown.frame()
    assert shown.backend.changes == []
    await shown.pilot.press("y")
    await shown.until(lambda: shown.backend.changes, "it is sent")
    ((path, body),) = shown.backend.changes
    assert path == "/v1/throttles/rates"
    rates = {one["broker"]: one["leader_bytes_per_s"] for one in body["rates"]}
    assert rates == {2: 34_200_000, 5: 25_000_000}


async def test_a_row_is_fixed_by_what_helps_that_row(shown: Shown) -> None:
    await shown.press("2")
    shown.view.show_row(ReplicaKey("orders", 2, 3))
    assert shown.cursor == "orders-2 on broker 3"
    await shown.press("F")
    await shown.dialog(ConfirmScreen)
    assert "Cancel the move of 1 partition" in shown.frame()


async def test_a_row_that_no_change_helps_does_not_open_the_change_of_another(
    tmp_path: Path,
) -> None:
    leaderless = Stuck(TopicPartition("orders", 2), 3, Cause.NO_LEADER)
    cluster = ailing(TOO_LOW, leaderless)
    async with dashboard(tmp_path / "s", cluster, start_view=OVERVIEW) as shown:
        await shown.until(lambda: "2 stuck" in shown.frame(), "it is seen")
        await shown.press("2")
        shown.view.show_row(ReplicaKey("orders", 2, 3))
        assert shown.cursor == "orders-2 on broker 3"
        assert shown.view.chosen_fix() is None
        await shown.press("F")
        assert not isinstance(shown.app.screen, ConfirmScreen)
        assert shown.said.startswith("kshunt knows no change for orders-2 on broker 3: no leader.")


async def test_a_line_of_the_attention_list_is_fixed_there(shown: Shown) -> None:
    cluster = shown.backend.cluster
    held = replace(
        cluster.operations["op-1"], state=OperationState.PAUSED, actions=("resume", "cancel")
    )
    cluster.operations["op-1"] = held
    shown.backend.announce(held)
    await shown.until(lambda: "op-1 is paused" in shown.frame(), "it is said")
    await shown.press("exclamation_mark")
    await shown.dialog(AttentionScreen)
    assert "F fixes it" in shown.frame()
    await shown.pilot.press("F")
    await shown.dialog(ConfirmScreen)
    assert "Resume" in shown.frame()


async def test_the_line_under_the_cursor_goes_before_what_is_more_urgent(shown: Shown) -> None:
    shown.backend.cluster.stuck.clear()
    misled = TopicPartition("audit-log", 1)
    for partition in list(shown.backend.cluster.partitions):
        shown.backend.cluster.cancel(partition)
    await shown.publish()
    await shown.until(lambda: "not led by the preferred replica" in shown.frame(), "it is said")
    await choose(shown, ("item", "misled"))
    await shown.press("F")
    await shown.until(lambda: "Elect the preferred" in shown.frame(), "its change is opened")
    assert shown.backend.cluster.partitions[misled].leader


async def test_where_no_change_helps_that_is_said(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", ScriptedCluster.of(3, {"t": 3})) as shown:
        await shown.press("F")
        assert shown.said == "Nothing needs a fix."


async def test_another_things_change_is_never_opened(tmp_path: Path) -> None:
    """A broker that is down comes first, and no change brings it back."""
    async with dashboard(tmp_path / "s", ailing(DOWN), start_view=OVERVIEW) as shown:
        await shown.until(lambda: "stuck: broker down" in shown.frame(), "it is seen")
        await shown.press("F")
        assert shown.said.startswith("kshunt knows no change for: ")
        assert shown.backend.changes == []
