"""Golden frames of the plan wizard, at 80x24 and at 160x50; see `tests.tui.test_frames`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.changes.plan.goals import PlanStep
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.app import SIZES, Shown, at_step, check_frame, named
from tests.support.tui.plans import (
    Planning,
    at_plan,
    choose,
    compared,
    planning_shown,
    proposed,
    rehearsal_answer,
    until,
)


@pytest.fixture(params=SIZES)
async def both(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Shown, Planning]]:
    """The dashboard at each size, and the planners behind it."""
    size = SIZES[request.param]
    async with planning_shown(tmp_path, size=size, start_view=OVERVIEW) as running:
        yield running


@pytest.fixture
def shown(both: tuple[Shown, Planning]) -> Shown:
    return both[0]


@pytest.fixture
def planning(both: tuple[Shown, Planning]) -> Planning:
    return both[1]


async def drawn(shown: Shown) -> None:
    """Wait for the plot with its axis."""
    await shown.until(lambda: "0s" in shown.frame() and "┤" in shown.frame(), "it is drawn")


async def test_goals_and_choices(shown: Shown) -> None:
    await shown.press("P")
    await at_plan(shown, PlanStep.GOAL)
    await check_frame(named("plan-goal", shown), shown)
    await shown.pilot.press("escape")
    await shown.closed()
    form = await choose(shown)
    await shown.pilot.press("j", "j", "j", "space")
    await shown.until(lambda: form.text(0) == "4", "it is marked")
    await check_frame(named("plan-choices", shown), shown)


async def test_a_proposal(shown: Shown, planning: Planning) -> None:
    impact = replace(planning.answer.impact, phases=(5, 5, 1))
    planning.answer = replace(planning.answer, impact=impact)
    await proposed(shown)
    await until(shown, "To drain broker 4")
    await check_frame(named("plan-brokers", shown), shown)
    await shown.pilot.press("tab")
    await until(shown, "[Partitions 11]")
    await check_frame(named("plan-diff", shown), shown)
    await shown.pilot.press("tab")
    await until(shown, "[Notes 1]")
    await check_frame(named("plan-notes", shown), shown)


async def test_rehearsals_side_by_side(shown: Shown, planning: Planning) -> None:
    planning.rehearsal = rehearsal_answer(planning.answer, deadline_s=3_600.0)
    await proposed(shown)
    await shown.pilot.press("enter")
    await at_plan(shown, PlanStep.THROTTLES)
    await check_frame(named("plan-throttles", shown), shown)
    await shown.pilot.press("escape", "escape", "escape", "escape")
    await shown.closed()
    await compared(shown, deadline="1h")
    await drawn(shown)
    await check_frame(named("plan-rehearsal", shown), shown)
    await shown.pilot.press("l", "l", "tab")
    await until(shown, "Needs in")
    await check_frame(named("plan-courses", shown), shown)
    await shown.pilot.press("tab")
    await until(shown, "leaves the ISR of orders-0")
    await check_frame(named("plan-isr", shown), shown)
    await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    await check_frame(named("plan-start", shown), shown)


async def test_an_ascii_terminal_shows_the_same(tmp_path: Path) -> None:
    async with planning_shown(tmp_path, glyphs=ASCII, start_view=OVERVIEW) as (shown, planning):
        planning.rehearsal = rehearsal_answer(planning.answer, deadline_s=300.0, possible=False)
        await proposed(shown)
        await shown.pilot.press("tab")
        await until(shown, "[Partitions 11]")
        await check_frame("plan-diff-ascii-80x24", shown)
        await shown.pilot.press("escape", "escape", "escape")
        await shown.closed()
        await compared(shown, deadline="5m")
        await until(shown, "Not possible by 08:58 UTC")
        await shown.until(lambda: " 0 B/s+" in shown.frame(), "it is drawn")
        await check_frame("plan-rehearsal-ascii-80x24", shown)
        assert shown.frame().isascii()
