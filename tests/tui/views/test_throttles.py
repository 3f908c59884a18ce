"""Throttles in the dashboard: whose they are, edited in place, and what that would do."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Input

from kshunt.backend.domain.forecast.what_if import what_if
from kshunt.backend.domain.replicas.stuck_causes import RateNeed
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ThrottledRate,
)
from kshunt.backend.domain.throttles.owners import OwnedThrottle, SettingValue, Share, ShareState
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.result import ResultScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.facts.pending_rates import (
    Foresight,
    change_lines,
    stepped,
    typed_back,
    typed_rates,
    what_if_text,
    with_rates,
)
from kshunt.tui.views.throttles.owners import before_text, owned_lines, owner_text
from tests.support.tui.app import Shown, check_frame, dashboard
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import ScriptedCluster, incident, running_move

MB = 1_000_000
HELD = Share("op-1", "ada@bastion-1", ShareState.HELD, SettingValue(25 * MB))
OURS = OwnedThrottle(
    *(LEADER_RATE, 2, None, "DYNAMIC_BROKER_CONFIG", ""),
    (HELD,),
    SettingValue(25 * MB),
    SettingValue(),
)


def owned() -> list[OwnedThrottle]:
    """Everything but what broker 5 and one topic have is of one operation."""
    rates = [
        replace(OURS, setting=setting, broker=broker, prior_value=SettingValue(prior))
        for broker, prior in ((1, None), (2, None), (3, None), (4, 9 * MB))
        for setting in (LEADER_RATE, FOLLOWER_RATE)
    ]
    lists = [
        replace(
            OURS,
            setting=setting,
            broker=None,
            topic="orders",
            present_value=SettingValue(replicas=text),
            prior_value=SettingValue(replicas=""),
            shares=(replace(HELD, wanted_value=SettingValue(replicas=text)),),
        )
        for setting, text in ((LEADER_REPLICAS, "0:2,0:3,0:4"), (FOLLOWER_REPLICAS, "0:5"))
    ]
    return [*rates, *lists]


@pytest.fixture(params=["80x24", "160x50"])
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The throttles during a move, once their owners are known."""
    width, height = map(int, request.param.split("x"))
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=(width, height)) as running:
        running.backend.owned = owned()
        await running.press("4")
        running.time.now += 10
        await running.publish()
        await running.until(lambda: "op-1 ada" in running.frame(), "owners are known")
        yield running


def name(shown: Shown, what: str) -> str:
    """The frame's name with its size."""
    return f"{what}-{shown.size[0]}x{shown.size[1]}"


def row(shown: Shown, what: str) -> str:
    """The line of a row."""
    return next(line for line in shown.lines()[3:] if line[2:].startswith(what))


def sent(shown: Shown) -> list[tuple[str, dict[str, Any]]]:
    """What was asked in earnest."""
    return shown.backend.changes


# Whose they are


async def test_each_row_says_whose_it_is_and_what_comes_back(shown: Shown) -> None:
    assert row(shown, "broker 1").split()[-4:-1] != []
    assert "op-1 ada" in row(shown, "broker 4")
    assert "9.00 MB/s" in row(shown, "broker 4")
    assert "not ours" in row(shown, "broker 5")
    assert "not ours" in row(shown, "pay")
    assert "op-1 ada" in row(shown, "orders")
    text = shown.frame()
    assert "leader rate and follower rate: op-1 of ada@bastion-1 wants 25.0 MB/s" in text
    assert "none, restored at the end" in text
    await check_frame(name(shown, "throttles-owned"), shown)
    await shown.press("enter")
    await shown.dialog(RowDetailsScreen)
    assert "op-1 of ada@bastion-1 wants 25.0 MB/s" in shown.frame()


async def test_owners_are_unknown_until_somebody_says(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        shown.backend.owned_problem = Problem(503, "The journal is not read yet.")
        await shown.press("4")
        shown.time.now += 10
        await shown.publish()
        await shown.until(lambda: "The journal is not read yet." in shown.frame(), "it is said")
        assert "not ours" not in shown.frame()
        assert " ? " in row(shown, "broker 1")


def test_owners_in_words() -> None:
    left = replace(OURS, shares=(replace(HELD, state=ShareState.LEFT),))
    two = replace(OURS, shares=(HELD, replace(HELD, operation="op-2", who="")))
    assert owner_text((), 0) == ""
    assert owner_text((), 2) == "not ours"
    assert owner_text((OURS,), 1) == "op-1 ada"
    assert owner_text((OURS,), 2) == "op-1 ada, part not ours"
    assert owner_text((two,), 1) == "2 operations"
    assert owner_text((left,), 1) == "left by op-1"
    assert before_text((OURS, replace(OURS, prior_value=SettingValue(9_000)))) == "none / 9.00 kB/s"
    assert before_text((replace(OURS, prior_value=None),)) == "?"
    lines = owned_lines(
        [
            replace(two, setting=FOLLOWER_RATE),
            replace(
                left, prior_value=SettingValue(1_000), prior_source="DYNAMIC_DEFAULT_BROKER_CONFIG"
            ),
        ]
    )
    assert lines == [
        (
            "Owner",
            "follower rate: op-1 of ada@bastion-1 wants 25.0 MB/s; op-2 of somebody wants "
            "25.0 MB/s",
        ),
        ("Before", "none, restored at the end"),
        ("Owner", "leader rate: op-1 of ada@bastion-1 has ended and left 25.0 MB/s set"),
        ("Before", "1.00 kB/s (dynamic default broker config), restored at the end"),
    ]


# Edited in place


async def test_steps_are_pending_until_they_are_agreed_to(shown: Shown) -> None:
    await shown.press("j", "plus", "plus")
    await shown.until(lambda: "What if" in shown.frame(), "it is foreseen")
    assert "broker 2: 25.0 MB/s -> 30.3 MB/s" in shown.frame()
    assert "30.3" in row(shown, "broker 2")
    assert shown.backend.asked == []
    await shown.press("minus")
    await shown.until(lambda: "25.0 MB/s -> 27.5 MB/s" in shown.frame(), "it is stepped back")
    await check_frame(name(shown, "throttles-pending"), shown)
    await shown.press("minus")
    await shown.until(lambda: "What if" not in shown.frame(), "nothing is pending")


async def test_escape_drops_what_was_typed(shown: Shown) -> None:
    await shown.press("plus")
    assert "Esc drop" in shown.lines()[-1]
    await shown.press("escape")
    assert shown.said == "Dropped; nothing was changed."
    await shown.until(lambda: "What if" not in shown.frame(), "it is dropped")
    await shown.press("enter")
    await shown.dialog(RowDetailsScreen)
    assert shown.backend.asked == []


async def test_enter_goes_through_the_same_question_as_every_change(shown: Shown) -> None:
    await shown.press("j", "plus", "enter")
    await shown.dialog(ConfirmScreen)
    text = shown.frame()
    assert "Set the throttle of broker 2" in text
    assert "25.0 MB/s → 27.5 MB/s" in text
    assert "At 27.5 MB/s: done" in text
    await shown.pilot.press("escape")
    await shown.closed()
    assert sent(shown) == []
    assert "27.5" in row(shown, "broker 2"), "what was typed is not lost"
    await shown.press("enter")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    ((path, body),) = sent(shown)
    assert path == "/v1/throttles/rates"
    assert body["preview"] == shown.backend.preview.fingerprint
    assert body["rates"] == [
        {"broker": 2, "leader_bytes_per_s": 27_500_000, "follower_bytes_per_s": 27_500_000}
    ]
    await shown.pilot.press("escape")
    await shown.closed()
    await shown.until(lambda: "What if" not in shown.frame(), "nothing is pending any more")


async def test_marked_brokers_are_stepped_together(shown: Shown) -> None:
    await shown.press("j", "space", "j", "space", "plus")
    await shown.until(lambda: "brokers 2, 4: 25.0 MB/s -> 27.5 MB/s" in shown.frame(), "both are")
    await shown.press("A", "plus")
    await shown.until(lambda: "brokers 1, 3, 5: 25.0" in shown.frame(), "and all of them")
    assert "27.5 MB/s" not in row(shown, "orders")


async def test_a_rate_is_typed_with_its_unit_for_one_or_for_all(shown: Shown) -> None:
    await shown.press("equals_sign")
    line = shown.view.query_one("#rate", Input)
    assert (line.has_focus, line.value) == (True, "25MB/s")
    line.value = "fast"
    await shown.press("enter")
    assert "'fast' is not a rate." in shown.said
    line.value = "50MB/s none"
    await shown.press("enter")
    await shown.until(lambda: "25.0 MB/s -> 50.0 MB/s / none" in shown.frame(), "it is foreseen")
    await shown.press("a")
    assert "Rate of brokers 1, 2, 3, 4 and 1 more" in shown.frame()
    line.value = "40MB/s"
    await shown.press("enter")
    await shown.until(lambda: "At 40.0 MB/s: done" in shown.frame(), "for all of them")
    await check_frame(name(shown, "throttles-all"), shown)
    await shown.press("a", "escape")
    assert not line.has_focus
    await shown.press("enter")
    await shown.dialog(ConfirmScreen)
    assert "Set the throttle of 5 brokers" in shown.frame()


async def test_what_has_no_rate_is_not_stepped(shown: Shown) -> None:
    shown.backend.cluster.rates[1] = ThrottledRate(None, None)
    await shown.publish()
    await shown.press("g", "plus")
    assert shown.said.startswith("There is no rate here")
    await shown.press("G", "plus")
    assert shown.said == "A topic has lists, but no rate; e edits its lists."
    await shown.press("equals_sign")
    assert shown.said.startswith("A topic has lists")


async def test_what_is_pending_stays_through_refreshes(shown: Shown) -> None:
    await shown.press("j", "j", "plus")
    await shown.publish(60)
    await shown.until(lambda: "broker 3: 25.0 MB/s -> 27.5 MB/s" in shown.frame(), "it stays")
    assert "27.5" in row(shown, "broker 3")
    # Somebody else set just that meanwhile: the wish has come true.
    shown.backend.cluster.rates[3] = ThrottledRate(27_500_000, 27_500_000)
    await shown.publish()
    await shown.press("2", "4")
    await shown.until(lambda: "->" not in shown.frame(), "nothing is pending any more")
    assert row(shown, "broker 3").count("27.5 MB/s") >= 2


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 10), (80, 12)])
async def test_small_terminals_still_show_the_rates(
    tmp_path: Path, width: int, height: int
) -> None:
    async with dashboard(tmp_path / "s", incident(), size=(width, height)) as shown:
        await shown.press("4", "plus", "equals_sign", "escape", "escape")
        assert "broker" in shown.frame()


# What is pure


rates = st.integers(1_000, 10**15)


@given(rates)
def test_a_step_up_and_a_step_down_differ_by_a_tenth(rate: int) -> None:
    up = stepped(ThrottledRate(rate, None), up=True)
    down = stepped(ThrottledRate(rate, None), up=False)
    assert up.follower_bytes_per_s is None
    assert up.leader_bytes_per_s is not None
    assert down.leader_bytes_per_s is not None
    assert down.leader_bytes_per_s <= rate * 1.01
    assert up.leader_bytes_per_s >= rate * 0.99
    assert 1_000 <= down.leader_bytes_per_s <= up.leader_bytes_per_s <= 10**15


@given(rates, rates)
def test_what_is_offered_can_be_typed_back(leader: int, follower: int) -> None:
    for rate in (ThrottledRate(leader, follower), ThrottledRate(leader, None)):
        assert typed_rates(typed_back(rate)) == rate


@pytest.mark.parametrize("text", ["", "1 2 3", "x", "12", "50MB/s y"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        typed_rates(text)


def foresight(cluster: ScriptedCluster, rate: int, *brokers: int) -> Foresight:
    snapshot = cluster.step()
    wanted = dict.fromkeys(brokers, ThrottledRate(rate, rate))
    pending = with_rates((), wanted, snapshot.throttles)
    now, then = what_if(snapshot, {}), what_if(snapshot, dict(pending))
    return Foresight(pending, snapshot.throttles, now, then, snapshot.taken_ms)


def test_what_would_be_is_said_in_one_line() -> None:
    every = tuple(incident().racks)
    faster = what_if_text(foresight(incident(), 50 * MB, *every))
    end = r"09:\d\d \(09:\d\d-09:\d\d\)"
    said = f"At 50.0 MB/s: done {end}, was {end}; broker 4 would use 50.0 of 50.0 MB/s"
    assert re.fullmatch(said, faster), faster
    growing = incident()
    growing.growing = {2}
    assert "never arrive" in what_if_text(foresight(growing, 10_000, *every))
    idle = ScriptedCluster.of(3, {"t": 3})
    assert what_if_text(foresight(idle, MB, 1)) == (
        "At 1.00 MB/s: nothing is being copied, so no end changes"
    )
    assert "as it is" in what_if_text(foresight(incident(), 30 * MB, 1))


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (33 * MB, "At 33.0 MB/s: too low, broker 5 needs a follower rate of 34.1 MB/s"),
        (
            35 * MB,
            "At 35.0 MB/s: enough for all stuck replicas; their end is unknown yet",
        ),
    ],
)
def test_where_nothing_is_copied_what_is_needed_is_said_in_place_of_never(
    rate: int, said: str
) -> None:
    needs = (
        RateNeed(2, LEADER_RATE, 25 * MB, 30 * MB, 34 * MB),
        RateNeed(5, FOLLOWER_RATE, 25 * MB, 30 * MB, 34 * MB + 1),
        RateNeed(9, FOLLOWER_RATE, 25 * MB, 30 * MB, 90 * MB),
    )
    seen = foresight(incident(), rate, 2, 5)
    seen = replace(seen, needs=needs, now=replace(seen.now, brokers={}))
    assert not seen.is_copying
    assert what_if_text(seen) == said


def test_a_rate_that_is_too_low_is_said_beside_the_eta() -> None:
    needs = (RateNeed(2, LEADER_RATE, 25 * MB, 30 * MB, 34 * MB),)
    seen = replace(foresight(incident(), 26 * MB, 2), needs=needs)
    assert seen.is_copying
    assert "; too low, broker 2 needs a leader rate of 34.0 MB/s" in what_if_text(seen)


def test_brokers_that_change_alike_are_named_together() -> None:
    cluster = incident()
    cluster.rates[5] = ThrottledRate(1_000, None)
    assert change_lines(foresight(cluster, 50 * MB, 1, 2, 5)) == [
        "brokers 1, 2: 25.0 MB/s -> 50.0 MB/s",
        "broker 5: 1.00 kB/s / none -> 50.0 MB/s",
    ]
