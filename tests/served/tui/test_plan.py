"""The plan wizard on a real backend of an embedded cluster, by keys only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.plan.goals import PlanStep
from kshunt.tui.changes.plan.screen import PlanScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.screen import WizardScreen
from tests.support.topics import create_topic, produce
from tests.support.tui.app import frame
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0
BACK = ".rollback.json"


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3], [3, 1], [1, 4], [4, 1], [2, 4]])
    produce(bootstrap, "orders", 600, 10_000)
    return bootstrap


@dataclass
class Dashboard:
    """A running dashboard, and its keys."""

    app: KshuntApp
    pilot: Pilot[None]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something."""
        await wait_until_async(condition, DEADLINE_S, what)
        await self.pilot.pause()

    async def words(self, words: str) -> None:
        """Wait for words on the screen."""
        await self.until(lambda: words in frame(self.app), f"'{words}' is shown")

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    async def at(self, step: PlanStep) -> PlanScreen:
        """The plan wizard, once it has come so far."""

        def there() -> bool:
            screen = self.app.screen
            return isinstance(screen, PlanScreen) and screen.step is step and screen.ready

        await self.until(there, f"it has come to {step.title}")
        assert isinstance(self.app.screen, PlanScreen)
        return self.app.screen

    async def at_start(self, step: Step) -> None:
        """The wizard that starts the plan, likewise."""

        def there() -> bool:
            screen = self.app.screen
            return isinstance(screen, WizardScreen) and screen.step is step and screen.ready

        await self.until(there, f"it has come to {step.title}")

    def replicas_on(self, broker: int) -> int:
        """Replicas of `orders` in the snapshot that is shown."""
        facts = self.app.store.facts
        if facts is None:
            return -1
        rows, topics = facts.rows, facts.snapshot.topics
        ours = rows.topic_index == topics.index("orders")
        return int((ours & (rows.broker == broker)).sum())


@pytest.fixture
async def shown(address: str) -> AsyncIterator[Dashboard]:
    app = KshuntApp(address)
    async with app.run_test(size=(80, 24)) as pilot:
        dashboard = Dashboard(app, pilot)
        await dashboard.until(lambda: app.store.scene.live, "it is live")
        await dashboard.until(lambda: app.store.facts is not None, "the cluster is shown")
        yield dashboard


async def to_the_proposal(shown: Dashboard) -> PlanScreen:
    """Drain broker 1 of `orders`, by keys."""
    await shown.press("P")
    await shown.at(PlanStep.GOAL)
    await shown.press("enter")
    screen = await shown.at(PlanStep.CHOICES)
    form = screen.form(PlanStep.CHOICES)
    await shown.press("space", "tab")
    await shown.until(lambda: form.input(0).has_focus, "the ids have the focus")
    await shown.press("enter")
    await shown.until(lambda: form.input(1).has_focus, "the topics have the focus")
    await shown.press(*"orders")
    await shown.press("enter", "enter", "enter", "enter")
    return await shown.at(PlanStep.PROPOSAL)


async def test_a_broker_is_rehearsed_and_drained_by_keys_only(
    shown: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown.replicas_on(1) == 4
    await to_the_proposal(shown)
    await shown.words("To drain broker 1: 4 partitions change, 4 replicas move")
    monkeypatch.chdir(tmp_path)
    await shown.press("s")
    await shown.words("Enter writes both")
    await shown.press(*["backspace"] * 60)
    await shown.press(*"mine", "full_stop", *"json", "enter")
    await shown.words("Written: mine.json and mine.rollback.json")
    plan, back = (json.loads((tmp_path / f"mine{end}").read_text()) for end in (".json", BACK))
    assert plan["cluster_id"] == back["cluster_id"] == shown.app.store.scene.cluster_id
    assert [entry["replicas"] for entry in back["partitions"]] == [[1, 2], [3, 1], [1, 4], [4, 1]]
    assert all(1 not in entry["replicas"] for entry in plan["partitions"])
    await shown.press("enter")
    await shown.at(PlanStep.THROTTLES)
    await shown.press("enter")
    await shown.press(*["backspace"] * 4, "2", "h", "enter")
    await shown.at(PlanStep.REHEARSAL)
    await shown.words("In time")
    await shown.press("l", "enter")
    await shown.at_start(Step.PREVIEW)
    await shown.words("all 4 would succeed")
    await shown.press("enter")
    await shown.at_start(Step.CONFIRM)
    await shown.press("y")
    await shown.at_start(Step.WATCH)
    await shown.until(lambda: shown.replicas_on(1) == 0, "the broker is empty")
    await shown.words("It is done")
    await shown.press("escape")
    await shown.until(lambda: shown.app.screen is shown.app.view, "the wizard is closed")


async def test_what_the_planners_refuse_is_said_with_what_to_do(shown: Dashboard) -> None:
    await shown.press("P")
    await shown.at(PlanStep.GOAL)
    await shown.press("8")
    screen = await shown.at(PlanStep.CHOICES)
    form = screen.form(PlanStep.CHOICES)
    form.input(0).value, form.input(1).value = "2", "/kafka/d1"
    form.input(max(form.fields)).focus()
    await shown.press("enter")
    await shown.at(PlanStep.PROPOSAL)
    await shown.words("Broker 2 would have no log directory left.")
    await shown.words("Drain the broker instead; nothing was planned.")
    await shown.press("r", "s", "escape")
    again = await shown.at(PlanStep.CHOICES)
    assert again.form(PlanStep.CHOICES).text(1) == "/kafka/d1"
