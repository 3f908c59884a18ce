"""Moves of others: whether their throttles stay on in the end, by what operations here own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.domain.throttles.owners import OwnedThrottle, SettingValue, Share, ShareState
from kshunt.tui.facts.foreign_throttles import Left, foreign_throttles_left, left_words
from kshunt.tui.views.throttles.details import about
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import ScriptedCluster, incident

RATE_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LIST_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def rates_operation(cluster: ScriptedCluster, **more: object) -> Operation:
    """Rates that an operator set for moves of others, to be removed when those moves end."""
    options = {"state": OperationState.RUNNING, **more}
    return cluster.note(OperationKind.THROTTLED_RATES, "rates of 5 brokers", **options)


def cell(setting: str, where: int | str, state: ShareState = ShareState.HELD) -> OwnedThrottle:
    """A setting in which the operation has a share."""
    share = Share("op-1", "ada@bastion-1", state, SettingValue(25_000_000))
    broker, topic = (where, None) if isinstance(where, int) else (None, where)
    return OwnedThrottle(setting, broker, topic, "s", "", (share,), SettingValue(5), SettingValue())


def owns(
    throttles: Throttles, *, lists: bool, state: ShareState = ShareState.HELD
) -> list[OwnedThrottle]:
    """Every rate that is set, and with `lists` every list too, as owned throttles."""
    cells = [cell(key, broker, state) for broker in throttles.rates for key in RATE_KEYS]
    if lists:
        cells += [cell(key, topic, state) for topic in throttles.replicas for key in LIST_KEYS]
    return cells


def test_what_stays_is_what_no_running_operation_has_a_share_of() -> None:
    cluster = incident()
    throttles = cluster.snapshot().throttles
    lists = 2 * len(throttles.replicas)
    operation = rates_operation(cluster)
    assert foreign_throttles_left([], throttles, []) == Left((), 10 + lists)
    assert foreign_throttles_left([operation], throttles, None) == Left(("op-1",), None)
    only_rates = owns(throttles, lists=False)
    assert foreign_throttles_left([operation], throttles, only_rates) == Left(("op-1",), lists)
    every = owns(throttles, lists=True)
    assert foreign_throttles_left([operation], throttles, every).nothing
    told_to_stay = owns(throttles, lists=True, state=ShareState.LEFT)
    assert foreign_throttles_left([operation], throttles, told_to_stay).stays == 10 + lists
    for other in (
        replace(operation, auto_remove_throttle=False),
        replace(operation, state=OperationState.DONE),
        replace(operation, kind=OperationKind.ELECTION),
    ):
        assert foreign_throttles_left([other], throttles, every).operations == ()


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (Left(), "their throttles stay set when they end"),
        (Left((), 3), "their throttles stay set when they end"),
        (Left(("op-1",), 0), "op-1 removes the throttles when they end"),
        (Left(("op-1", "op-2"), 0), "op-1, op-2 remove the throttles when they end"),
        (Left(("op-1",), 1), "1 throttle stays set, op-1 removes its own"),
        (Left(("op-1",), 4), "4 throttles stay set, op-1 removes its own"),
        (Left(("op-1",)), "some throttles may stay set, op-1 removes its own"),
    ],
)
def test_it_is_said_who_takes_what_off(left: Left, words: str) -> None:
    assert left_words(left) == words
    _, lines = about(None, (), (), 6, left)
    said = lines[0]
    assert said.text.startswith("6 partitions move that no operation of kshunt owns")
    assert (said.tone == "") == left.nothing
    if left.operations:
        assert words in said.text
    else:
        assert "nobody here will remove them" in said.text


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The home screen during throttled moves that somebody else started."""
    async with dashboard(
        tmp_path / "s", incident(), size=(100, 40), start_view="overview"
    ) as running:
        yield running


async def test_without_an_operation_the_throttles_stay_on(shown: Shown) -> None:
    await shown.until(lambda: "of others" in shown.frame(), "it is said")
    assert "6 moves of others: their throttles stay set when they end." in shown.frame()


async def test_a_rate_operation_takes_its_rates_off_with_them(shown: Shown) -> None:
    cluster = shown.backend.cluster
    shown.backend.announce(rates_operation(cluster))
    shown.backend.owned = owns(cluster.snapshot().throttles, lists=True)
    shown.time.now += 10
    await shown.publish()
    await shown.until(
        lambda: "6 moves of others: op-1 removes the throttles when they end." in shown.frame(),
        "the truth is said",
    )
    await shown.press("4")
    await shown.until(lambda: "op-1 removes the throttles" in shown.frame(), "and here")
