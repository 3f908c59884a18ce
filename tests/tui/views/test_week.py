"""A week at a glance: what held operations up on each day, from the history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.pipeline.delivered import BottleneckRow, Rows, TableStatus
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.tui.actions.view_names import HISTORY
from kshunt.tui.text.glyphs import ASCII, UNICODE
from kshunt.tui.views.history.week_summary import is_whole, week_facts
from tests.support.tui.app import SIZES, check_frame, dashboard
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import moving, running_move
from tests.support.tui.delivered import deliver

WEEK = Week(2026, 47)
ETA = TableStatus("eta", WEEK.to_ms, "stream", WEEK.to_ms)
NOW_MS = WEEK.from_ms + 4 * DAY_MS + 1


def held(*rows: tuple[str, float]) -> Rows[BottleneckRow]:
    return Rows(ETA, tuple(BottleneckRow(bound, seconds, 1, 0, 0) for bound, seconds in rows))


def day(number: int) -> int:
    return WEEK.days_ms[number]


def test_each_day_has_its_bottleneck_and_a_bar_of_its_time() -> None:
    days = {
        day(0): held(("broker 1 sending", 3_600.0), ("link 1->4", 60.0)),
        day(1): held(("leader throttle of broker 3", 7_320.0)),
        day(2): held(),
        day(3): Rows(TableStatus("eta")),
    }
    facts = dict(week_facts(WEEK, days, (), NOW_MS, ASCII))
    assert facts["Mon 2026-11-16"] == "[####----]  1h00m  broker 1 sending, 1 more"
    assert facts["Tue 2026-11-17"] == "[########]  2h02m  leader throttle of broker 3"
    assert facts["Wed 2026-11-18"] == "nothing, or no results"
    assert facts["Thu 2026-11-19"] == "no results"
    assert facts["Fri 2026-11-20"] == "no results"
    assert facts["Sat 2026-11-21"] == "not yet"
    assert facts["All week"] == (
        "leader throttle of broker 3 2h02m (67%), broker 1 sending 1h00m (33%), "
        "link 1->4 1m00s (1%)"
    )


def test_a_backend_without_results_says_what_to_do() -> None:
    none = replace(held(), of=TableStatus("eta"))
    said = dict(week_facts(WEEK, {day(0): none}, (), NOW_MS, ASCII))["All week"]
    assert "kshunt serve --samples DIR" in said
    nothing = {day(0): held()}
    assert "Nothing held" in dict(week_facts(WEEK, nothing, (), NOW_MS, ASCII))["All week"]


def test_a_name_cannot_act_on_the_terminal() -> None:
    facts = dict(week_facts(WEEK, {day(0): held(("\x1b[2J", 60.0))}, (), NOW_MS, UNICODE))
    assert "\x1b" not in "".join(facts.values())


def test_operations_that_ended_in_the_week_are_counted() -> None:
    one = running_move(moving())
    ends = [
        (WEEK.from_ms - 1, OperationState.DONE),
        (WEEK.from_ms, OperationState.DONE),
        (WEEK.to_ms - 1, OperationState.FAILED),
        (WEEK.to_ms, OperationState.DONE),
    ]
    ended = [replace(one, state=state, ended_ms=at_ms) for at_ms, state in ends]
    facts = dict(week_facts(WEEK, {}, [*ended, one], NOW_MS, ASCII))
    assert facts["Operations"] == "2 operations ended: 1 done, 1 failed"
    assert "None" in dict(week_facts(WEEK, {}, [one], NOW_MS, ASCII))["Operations"]


def test_a_day_that_is_still_read_is_not_whole() -> None:
    rows = held()
    assert is_whole({day(0): rows, day(1): replace(rows, since_ms=day(1))})
    assert not is_whole({day(0): replace(rows, since_ms=day(0) + 1)})


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_a_key_of_the_history_shows_last_week(size: str, tmp_path: Path) -> None:
    cluster = moving()
    async with dashboard(tmp_path / "s", cluster, size=SIZES[size], start_view=HISTORY) as shown:
        deliver(shown.backend, cluster.now_ms)
        shown.app.polling.nudge()
        await shown.until(lambda: "behind the samples" in shown.frame(), "the pipeline is known")
        await shown.until(lambda: "Limits" in shown.frame() or size == "80x24", "its results are")
        last = Week.at(cluster.now_ms).before
        await shown.press("w")
        await shown.until(lambda: "All week" in shown.frame(), "the week is shown")
        assert f"Week {last} (UTC)" in shown.frame()
        await check_frame(f"history-week-{size}", shown)
        await shown.press("left")
        await shown.until(lambda: f"Week {last.before} (UTC)" in shown.frame(), "the week before")
        await shown.press("right", "right", "right", "right")
        await shown.until(lambda: "not yet" in shown.frame(), "this week")
        assert f"Week {Week.at(cluster.now_ms)} (UTC)" in shown.frame()
        await shown.press("escape")
        await shown.until(lambda: "All week" not in shown.frame(), "it is closed")


async def test_a_backend_that_cannot_say_is_quoted(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        shown.backend.delivered_problem = Problem(503, "The results cannot be read.")
        await shown.press("w")
        await shown.until(lambda: "The results cannot be read." in shown.frame(), "it is said")
