"""The plan wizard of the dashboard: from a goal to a move that runs, and back again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.actions.view_names import BROKERS, OVERVIEW
from kshunt.tui.changes.plan.comparison import Comparison
from kshunt.tui.changes.plan.goals import TITLES, PlanStep
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.grid.grid import Grid
from tests.support.tui.app import Shown, at_step, go_through, press_at_random
from tests.support.tui.backend import Problem
from tests.support.tui.plans import (
    DRAINED,
    MB,
    Planning,
    at_plan,
    choose,
    compared,
    fill,
    plan_answer,
    planning_shown,
    proposed,
    until,
)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Shown, Planning]]:
    """The overview, and the planners behind it."""
    async with planning_shown(tmp_path, start_view=OVERVIEW) as running:
        yield running


@pytest.fixture
def shown(both: tuple[Shown, Planning]) -> Shown:
    return both[0]


@pytest.fixture
def planning(both: tuple[Shown, Planning]) -> Planning:
    return both[1]


async def test_marks_are_offered_where_brokers_can_be_marked(shown: Shown) -> None:
    form = await choose(shown)
    await shown.until(lambda: "Space marks, Enter goes to Brokers" in shown.frame(), "in the list")
    await shown.pilot.press("enter")
    await shown.until(lambda: form.input(0).has_focus, "the field has the focus")
    await shown.until(lambda: "Space marks" not in shown.frame(), "a blank is typed there")
    await shown.pilot.press("up")
    await shown.until(lambda: "Space marks" in shown.frame(), "Up went to the list")


async def test_enter_plans_with_the_marked_brokers(shown: Shown, planning: Planning) -> None:
    await choose(shown)
    await shown.pilot.press("j", "space")
    hint = "Space marks, Tab goes to fields, Enter plans it"
    await shown.until(lambda: hint in shown.frame(), "the other fields have values")
    await shown.pilot.press("k", "space")
    await shown.until(lambda: "Enter goes to Brokers" in shown.frame(), "no broker is marked")
    await shown.pilot.press("k", "space", "enter")
    await at_plan(shown, PlanStep.PROPOSAL)
    assert (planning.asked["brokers"], planning.asked["topics"]) == ([2], ["*"])


async def test_enter_in_the_list_says_which_field_is_wrong(
    shown: Shown, planning: Planning
) -> None:
    form = await choose(shown, 7)
    await shown.pilot.press("space", "enter")
    await shown.until(lambda: form.input(0).has_focus, "the cursor is there")
    await shown.until(lambda: "Type two brokers" in form.hint(0).plain, "it is said")
    assert shown.backend.questions == []


# From a goal to a move


async def test_a_broker_is_drained_with_the_throttle_that_was_chosen(
    shown: Shown, planning: Planning
) -> None:
    await compared(shown)
    assert planning.asked["throttles_bytes_per_s"] == [25 * MB, 100 * MB, None]
    await shown.pilot.press("l", "enter")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("escape")
    wizard = await at_step(shown, Step.CHOICES)
    assert [wizard.input(n).value for n in range(3)] == ["100MB/s", "5/200", "drain broker 4"]
    await shown.pilot.press("enter", "enter", "enter")
    await go_through(shown)
    ((path, body),) = shown.backend.changes
    assert path == "/v1/reassignments"
    targets = planning.answer.proposal.targets
    assert len(body["plan"]["partitions"]) == len(targets)
    assert all(DRAINED not in entry["replicas"] for entry in body["plan"]["partitions"])
    assert (body["throttle_bytes_per_s"], body["reason"]) == (100 * MB, "drain broker 4")
    assert (body["preview"], body["cluster_id"]) == ("a-1", planning.answer.cluster_id)
    assert body["plan"]["cluster_id"] == planning.answer.cluster_id
    await shown.pilot.press("escape")
    await shown.closed()


async def test_it_can_be_started_without_a_rehearsal(shown: Shown, planning: Planning) -> None:
    await proposed(shown)
    await shown.pilot.press("r")
    wizard = await at_step(shown, Step.CHOICES)
    assert wizard.input(0).value == ""
    assert [path for path, _ in shown.backend.questions] == ["/v1/plans"]


async def test_back_from_the_start_everything_is_as_it_was(
    shown: Shown, planning: Planning
) -> None:
    screen = await compared(shown)
    await shown.pilot.press("l", "enter")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    assert "Esc goes back to the plan" in shown.frame()
    await shown.pilot.press("escape")
    await at_plan(shown, PlanStep.REHEARSAL)
    assert "[100 MB/s]" in shown.frame()
    for step in (PlanStep.THROTTLES, PlanStep.PROPOSAL, PlanStep.CHOICES):
        await shown.pilot.press("escape")
        await at_plan(shown, step)
    assert screen.form(PlanStep.CHOICES).text(0) == "4"
    await shown.pilot.press("escape")
    await at_plan(shown, PlanStep.GOAL)
    await shown.pilot.press("escape")
    await shown.closed()
    assert shown.said == "Nothing was changed."
    assert shown.backend.changes == []


async def test_a_start_that_is_refused_leads_back_to_the_plan(
    shown: Shown, planning: Planning
) -> None:
    await compared(shown)
    shown.backend.refuse = Problem(409, "Another backend is active.", "Ask that one.")
    await shown.pilot.press("enter")
    await until(shown, "Another backend is active.")
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    await shown.pilot.press("escape")
    await at_plan(shown, PlanStep.REHEARSAL)
    assert shown.backend.changes == []


# Where it is opened


async def test_marked_topics_become_the_topics(tmp_path: Path) -> None:
    async with planning_shown(tmp_path) as (shown, _):
        await shown.press("v", "j", "space", "space", "P")
        await at_plan(shown, PlanStep.GOAL)
        await shown.pilot.press("4")
        screen = await at_plan(shown, PlanStep.CHOICES)
        form = screen.form(PlanStep.CHOICES)
        assert form.text(3) == "orders, payments.transactions.settled.v2"


async def test_the_broker_of_the_row_becomes_the_one_to_drain(tmp_path: Path) -> None:
    async with planning_shown(tmp_path, start_view=BROKERS) as (shown, _):
        await shown.press("j", "j")
        form = await choose(shown)
        assert form.text(0) == "3"
        assert form.query_one(Grid).marked == {3}


# Choices


CHOICES: list[tuple[int, list[str | None], dict[str, Any]]] = [
    (
        1,
        ["4, 2", "orders, pay*", "audit-log", "yes", "90%"],
        {
            "goal": "drain",
            "brokers": [4, 2],
            "topics": ["orders", "pay*"],
            "exclude": ["audit-log"],
            "keep_racks": False,
            "disk_fraction": 0.9,
        },
    ),
    (2, ["5", "rep"], {"goal": "expand", "brokers": [5], "by": "replicas"}),
    (
        3,
        ["orders", "2"],
        {
            "goal": "replication-factor",
            "factors": [{"topics": "orders", "replication_factor": 2}],
            "topics": ["orders"],
        },
    ),
    (
        4,
        ["load", "5%", "500GB"],
        {"goal": "rebalance", "by": "load", "tolerance": 0.05, "max_moved_bytes": 500 * 10**9},
    ),
    (5, ["20"], {"goal": "leaders", "tolerance": 0.2, "topics": ["*"]}),
    (6, [], {"goal": "rack-repair", "disk_fraction": 0.85}),
    (7, ["4, 1"], {"goal": "replace", "brokers": [4, 1], "keep_racks": True}),
    (
        8,
        ["3", "/var/lib/kafka"],
        {"goal": "move-log-dirs", "brokers": [3], "directories": ["/var/lib/kafka"]},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "texts", "body"), CHOICES)
async def test_every_goal_asks_what_it_needs(
    shown: Shown,
    planning: Planning,
    number: int,
    texts: list[str | None],
    body: dict[str, Any],
) -> None:
    await fill(shown, await choose(shown, number), *texts)
    await at_plan(shown, PlanStep.PROPOSAL)
    assert planning.asked == {**planning.asked, **body}


def test_there_are_eight_goals_with_a_line_each() -> None:
    assert len(TITLES) == len(CHOICES) == 8
    assert all(len(title) <= 21 and len(what) <= 50 for title, what in TITLES.values())


@pytest.mark.parametrize(
    ("number", "texts", "said"),
    [
        (1, [""], "Type the ids of brokers"),
        (1, ["9"], "There is no broker 9; the brokers are 1, 2, 3, 4, 5."),
        (1, ["one"], "Type the ids of brokers"),
        (1, ["1,2,3,4,5"], "No broker would be left"),
        (1, ["4", "nothing"], "No topic matches 'nothing'."),
        (1, ["4", "a b/c"], "'b/c' is not a topic"),
        (1, ["4", "*", "none", "maybe"], "Type yes or no."),
        (1, ["4", "*", "none", "no", "0%"], "above 0 and at most 100%"),
        (2, ["4", "weight"], "Type bytes, replicas, or load."),
        (3, ["orders", "6"], "There are 5 brokers"),
        (3, ["orders", ""], "Type a number from 1 to 5."),
        (4, ["bytes", "much"], "'much' is not a percentage"),
        (4, ["bytes", "10%", "lots"], "'lots' is not a size"),
        (7, ["4"], "Type two brokers"),
        (8, ["1, 2"], "Type one broker"),
        (8, ["1", "/not/there"], "No broker has a directory /not/there"),
    ],
)
async def test_a_mistake_is_said_at_its_field_at_once(
    shown: Shown, planning: Planning, number: int, texts: list[str], said: str
) -> None:
    form = await choose(shown, number)
    await fill(shown, form, *texts)
    place = len(texts) - 1
    await shown.until(lambda: said in form.hint(place).plain, f"'{said}' is said")
    await shown.until(lambda: form.input(place).has_focus, "the cursor is there")
    assert shown.backend.questions == []


async def test_marks_are_ids_and_ids_are_marks(shown: Shown, planning: Planning) -> None:
    form = await choose(shown, 7)
    grid = form.query_one(Grid)
    await shown.until(lambda: grid.has_focus, "the list has the focus")
    await shown.pilot.press("j", "j", "j", "space", "k", "k", "k", "k", "space")
    await shown.until(lambda: form.text(0) == "4, 1", "ids stand in the order of the marks")
    await shown.pilot.press("tab")
    await shown.until(lambda: form.input(0).has_focus, "the field has the focus")
    await shown.pilot.press("end")
    await shown.write(", 3")
    await shown.until(lambda: grid.marked == {1, 3, 4}, "what is typed is marked")
    await shown.pilot.press(*["backspace"] * 6)
    await shown.until(lambda: grid.marked == {4}, "what is deleted is not")
    assert form.text(0) == "4"


async def test_what_was_typed_stays_for_another_goal(shown: Shown, planning: Planning) -> None:
    form = await choose(shown, 1)
    form.input(0).value = "2"
    form.input(1).value = "orders"
    await shown.pilot.press("escape")
    await at_plan(shown, PlanStep.GOAL)
    await shown.pilot.press("2")
    screen = await at_plan(shown, PlanStep.CHOICES)
    again = screen.form(PlanStep.CHOICES)
    assert (again.text(0), again.text(2)) == ("2", "orders")


# Answers that do not come


async def test_leaving_ends_the_work(shown: Shown, planning: Planning) -> None:
    shown.backend.held = asyncio.Event()
    await fill(shown, await choose(shown), "4")
    await until(shown, "Working out a plan since 08:53:21 UTC")
    shown.time.now += 75
    await until(shown, "for 1m15s. It changes nothing.")
    await shown.pilot.press("enter", "s", "r", "tab", "escape")
    screen = await at_plan(shown, PlanStep.CHOICES)
    assert screen.form(PlanStep.CHOICES).text(0) == "4"
    shown.backend.held.set()
    shown.backend.held = None
    await fill(shown, screen.form(PlanStep.CHOICES), "3")
    await at_plan(shown, PlanStep.PROPOSAL)
    assert [body["brokers"] for _, body in shown.backend.questions] == [[4], [3]]


@pytest.mark.parametrize(
    "problem",
    [
        Problem(422, "There is no broker 4.", "Name another."),
        Problem(409, "4 plans wait already.", "Ask again later."),
        Problem(500, "The planner's process failed.", "The cluster is unchanged."),
    ],
)
async def test_a_refusal_is_said_and_can_be_asked_again(
    shown: Shown, planning: Planning, problem: Problem
) -> None:
    planning.refuses = problem
    await proposed(shown)
    await until(shown, problem.detail)
    assert problem.advice in shown.frame()
    assert "Enter tries again, Esc goes back to what you typed" in shown.frame()
    await shown.pilot.press("s", "r", "tab")
    planning.refuses = None
    await shown.pilot.press("enter")
    await until(shown, "To drain broker 4:")


async def test_a_backend_that_is_gone_takes_nothing_with_it(
    shown: Shown, planning: Planning
) -> None:
    screen = await compared(shown)
    await shown.backend.stop()
    await shown.until(lambda: shown.app.store.scene.lost, "the loss is noticed")
    await shown.pilot.press("enter")
    await until(shown, "The connection is lost: nothing can be sent")
    await shown.pilot.press("escape")
    await at_plan(shown, PlanStep.THROTTLES)
    await fill(shown, screen.form(PlanStep.THROTTLES))
    await until(shown, "No backend answers")
    await shown.backend.start()
    await shown.pilot.press("enter")
    await until(shown, "Busiest in")


async def test_another_cluster_starts_nothing(shown: Shown, planning: Planning) -> None:
    await proposed(shown)
    shown.backend.cluster.cluster_id = "another-cluster"
    await shown.publish()
    await shown.until(
        lambda: shown.app.store.scene.cluster_id == "another-cluster", "it is another"
    )
    await shown.pilot.press("r")
    await until(shown, "This is another cluster now")


# What there is nothing to do with


async def test_a_plan_without_changes_starts_nothing(shown: Shown, planning: Planning) -> None:
    planning.answer = plan_answer(shown.backend.cluster, before={}, targets={})
    await proposed(shown)
    assert "nothing changes; 1 note." in shown.frame()
    for key, said in (
        ("enter", "nothing to start"),
        ("r", "nothing to start"),
        ("s", "there is no plan to save"),
    ):
        await shown.pilot.press(key)
        await until(shown, said)


async def test_what_copies_nothing_is_not_rehearsed(shown: Shown, planning: Planning) -> None:
    answer = planning.answer
    planning.answer = replace(answer, impact=replace(answer.impact, added=0))
    await proposed(shown)
    await shown.pilot.press("enter")
    await until(shown, "Nothing is copied between brokers: r starts it")


async def test_read_only_shows_what_would_be_and_sends_nothing(tmp_path: Path) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW, read_only=True) as (shown, _):
        await compared(shown)
        await shown.pilot.press("escape", "escape")
        await until(shown, "READ-ONLY")
        await shown.pilot.press("r")
        wizard = await at_step(shown, Step.CHOICES)
        wizard.input(0).value = "none"
        await shown.pilot.press("enter", "enter", "enter")
        await until(shown, "kshunt was started read-only")
        await shown.pilot.press("enter", "y")
        assert shown.backend.changes == []


# Any key, any size


@pytest.mark.slow
async def test_keys_in_any_order_change_nothing(shown: Shown, planning: Planning) -> None:
    keys = ["P", "1", "2", "4", "enter", "escape", "tab", "r", "s", "j", "k", "space"]
    keys += ["pagedown", "3", "enter", "enter", "n", "left"]
    await press_at_random(shown, lambda: keys, 200, 11)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (30, 8), (50, 10), (80, 15), (200, 60)])
async def test_any_size_at_every_step(tmp_path: Path, size: tuple[int, int]) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW, size=size) as (shown, _):
        await compared(shown)
        await shown.pilot.press("tab", "j", "pagedown", "tab", "tab", "l")
        for step in (PlanStep.THROTTLES, PlanStep.PROPOSAL, PlanStep.CHOICES, PlanStep.GOAL):
            for other in ((80, 24), (25, 6), size):
                await shown.resize(*other)
            await shown.pilot.press("tab", "escape")
            await at_plan(shown, step)
        assert shown.backend.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (50, 10), (80, 24)])
async def test_what_is_typed_into_is_in_sight(tmp_path: Path, size: tuple[int, int]) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW, size=size) as (shown, _):
        form = await choose(shown)
        form.input(0).value = "4"
        form.input(0).focus()
        for place in form.fields:
            entry = form.input(place)

            def in_sight(entry: Input = entry) -> bool:
                widget = shown.app.screen.find_widget(entry)
                return entry.has_focus and bool(widget.visible_region.area)

            await shown.until(in_sight, f"field {place} is in sight")
            await shown.pilot.press("enter")


async def test_the_columns_that_do_not_fit_are_gone_to(tmp_path: Path) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW, size=(40, 20)) as (shown, _):
        screen = await compared(shown)
        assert "[25.0 MB/s]" in shown.frame()
        assert "Throttle" in shown.frame()
        await shown.pilot.press("l", "right", "l", "l")
        await until(shown, "[none]")
        assert "Throttle <" in shown.frame()
        assert screen.query_one(Comparison).chosen == 2
        await shown.pilot.press("h", "left", "h")
        await until(shown, "[25.0 MB/s]")


async def test_directories_are_started_with_their_paths(shown: Shown, planning: Planning) -> None:
    partition = TopicPartition("orders", 0)
    here = tuple(shown.backend.cluster.partitions[partition].replicas)
    proposal = replace(
        planning.answer.proposal,
        goal="empty /d1 of broker 1",
        before={partition: here},
        targets={partition: here},
        log_dirs={(partition, here[0]): "/d2"},
        log_dirs_before={(partition, here[0]): "/d1"},
    )
    impact = replace(planning.answer.impact, added=0)
    planning.answer = replace(planning.answer, proposal=proposal, impact=impact)
    await fill(shown, await choose(shown, 8), str(here[0]))
    await at_plan(shown, PlanStep.PROPOSAL)
    await shown.pilot.press("tab")
    await until(shown, f"{here[0]}: /d1 → /d2")
    await shown.pilot.press("r")
    wizard = await at_step(shown, Step.CHOICES)
    wizard.input(0).value = "none"
    await shown.pilot.press("enter", "enter", "enter")
    await at_step(shown, Step.PREVIEW)
    await until(shown, f"on {here[0]} → /d2")
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    (entry,) = body["plan"]["partitions"]
    assert entry["log_dirs"][0] == "/d2"
