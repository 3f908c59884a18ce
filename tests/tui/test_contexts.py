"""Choosing another cluster: in a running dashboard, and where none is named."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.widgets import OptionList

from kshunt.tui.chooser import ChooserApp
from kshunt.tui.dialogs.contexts import ContextsScreen
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.feed.scene import Scene
from kshunt.tui.shell.contexts import ClusterChoice, Origin
from tests.support.tui.app import DEADLINE_S, Shown, dashboard, threads_have_ended
from tests.support.tui.cluster import incident
from tests.support.waiting import wait_until_async

PROD = ClusterChoice(Origin.CONTEXT, "prod", "b1:9092", ("--context", "prod"))
STAGING = ClusterChoice(Origin.CONTEXT, "staging", "b2:9092", ("--context", "staging"))
DEMO = ClusterChoice(Origin.DEMO, "demo", "a cluster in memory", ("demo",))
RUNNING = ClusterChoice(
    Origin.RUNNING, "hd4kZ[x]", "unix:/run/k.sock", ("--backend=unix:/run/k.sock",), answers=True
)


class Listed:
    """What can be opened, and what was wished for."""

    def __init__(self, present: tuple[str, ...] | None = None, failure: str = "") -> None:
        self.present = present
        self.failure = failure
        self.opened: list[ClusterChoice] = []
        self.may_look = threading.Event()
        self.may_look.set()

    def known(self) -> Sequence[ClusterChoice]:
        return [PROD, STAGING, DEMO]

    def looked_up(self) -> Sequence[ClusterChoice]:
        assert self.may_look.wait(DEADLINE_S)
        return [PROD, STAGING, RUNNING, DEMO]

    def open(self, choice: ClusterChoice) -> None:
        self.opened.append(choice)


async def chooser(shown: Shown) -> ContextsScreen:
    """The chooser, once running backends are in it."""
    found = await shown.dialog(ContextsScreen)
    assert isinstance(found, ContextsScreen)
    await shown.until(lambda: "Running backends" in shown.frame(), "what runs is listed")
    return found


async def test_the_palette_opens_another_cluster(tmp_path: Path) -> None:
    contexts = Listed(PROD.command)
    async with dashboard(tmp_path / "s", incident(), name="prod", contexts=contexts) as shown:
        await shown.press("colon")
        await shown.until(lambda: shown.app.screen is not shown.view, "the palette is open")
        await shown.pilot.press("c", "t", "x")
        await shown.until(lambda: "Contexts" in shown.frame(), "the action is offered")
        await shown.pilot.press("enter")
        await chooser(shown)
        assert "prod      shown now  b1:9092" in shown.frame()
        await shown.pilot.press("j", "enter")
        await shown.until(lambda: not shown.app.is_running, "the dashboard has ended")
    assert contexts.opened == [STAGING]
    assert shown.backend.changes == []


async def test_the_old_link_is_closed(tmp_path: Path) -> None:
    contexts, before = Listed(PROD.command), {*threading.enumerate()}
    async with dashboard(tmp_path / "s", incident(), contexts=contexts) as shown:
        await shown.pilot.press("ctrl+o")
        await chooser(shown)
        await shown.pilot.press("j", "enter")
        await shown.until(lambda: not shown.app.is_running, "the dashboard has ended")
    await threads_have_ended(before)


@pytest.mark.parametrize("keys", [("escape",), ("q",), ("enter",)])
async def test_closing_it_or_choosing_the_present_changes_nothing(
    tmp_path: Path, keys: tuple[str, ...]
) -> None:
    contexts = Listed(PROD.command)
    async with dashboard(tmp_path / "s", incident(), contexts=contexts) as shown:
        await shown.pilot.press("ctrl+o")
        await chooser(shown)
        await shown.pilot.press(*keys)
        await shown.closed()
        assert shown.app.is_running
    assert contexts.opened == []


async def test_the_cursor_stays_when_running_backends_arrive(tmp_path: Path) -> None:
    contexts = Listed(PROD.command)
    contexts.may_look.clear()
    async with dashboard(tmp_path / "s", incident(), contexts=contexts) as shown:
        await shown.pilot.press("ctrl+o")
        await shown.dialog(ContextsScreen)
        await shown.pilot.press("end")
        contexts.may_look.set()
        await chooser(shown)
        await shown.pilot.press("enter")
        await shown.until(lambda: contexts.opened, "something is chosen")
    assert contexts.opened == [DEMO]


async def test_keys_in_the_wrong_order_and_a_terminal_that_shrinks(tmp_path: Path) -> None:
    contexts = Listed(PROD.command)
    contexts.may_look.clear()
    async with dashboard(tmp_path / "s", incident(), contexts=contexts) as shown:
        await shown.pilot.press("ctrl+o", "escape", "ctrl+o", "ctrl+o", "k", "k", "k", "pagedown")
        for size in ((40, 8), (20, 5), (1, 1), (120, 40), (30, 6)):
            await shown.pilot.resize_terminal(*size)
            await shown.pilot.press("j", "pageup", "home", "end")
        contexts.may_look.set()
        await shown.pilot.resize_terminal(80, 24)
        await chooser(shown)
        await shown.pilot.press("escape")
        await shown.closed()
        assert shown.app.is_running
        assert contexts.opened == []


async def test_a_chooser_that_was_closed_takes_no_late_answer(tmp_path: Path) -> None:
    contexts = Listed(PROD.command)
    contexts.may_look.clear()
    async with dashboard(tmp_path / "s", incident(), contexts=contexts) as shown:
        await shown.pilot.press("ctrl+o")
        await shown.dialog(ContextsScreen)
        await shown.pilot.press("escape")
        await shown.closed()
        contexts.may_look.set()
        await shown.publish()
        assert shown.app.is_running


async def test_while_a_change_runs_nothing_else_is_opened(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident(), contexts=Listed(PROD.command)) as shown:
        shown.app.changing = True
        await shown.press("ctrl+o")
        assert shown.said.startswith("A change is running")
        assert shown.app.screen is shown.view


async def test_a_session_of_one_cluster_says_so(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        await shown.press("ctrl+o")
        assert shown.said.startswith("This session shows one cluster")


async def test_the_head_has_the_name_and_the_help_has_the_rest(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident(), name="prod", size=(80, 60)) as shown:
        servers = shown.app.store.scene.bootstrap_servers
        assert shown.lines()[0].startswith(" kshunt  prod ")
        assert servers not in shown.frame()
        await shown.pilot.press("question_mark")
        await shown.dialog(HelpScreen)
        await shown.pilot.press(*["pagedown"] * 3)
        shown.app.screen.query_one("#help").scroll_end(animate=False)
        await shown.until(lambda: f"Brokers       {servers}" in shown.frame(), "how it is reached")
        assert shown.app.address[:40] in shown.frame()


async def test_without_a_name_the_head_has_the_cluster_id(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        scene: Scene = shown.app.store.scene
        assert shown.lines()[0].startswith(f" kshunt  cluster {scene.cluster_id} ")


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_the_chooser_alone(size: tuple[int, int]) -> None:
    contexts = Listed(failure="shared was not opened. No backend answers.")
    app = ChooserApp(contexts)
    async with app.run_test(size=size) as pilot:
        await wait_until_async(lambda: _listed(app) == 7, DEADLINE_S, "all are listed")
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        text = " ".join(strip.text for strip in strips)
        assert "shared was not opened." in text
        assert "hd4kZ[x]" in text
        await pilot.press("down", "down", "enter")
    assert contexts.opened == [RUNNING]


async def test_leaving_the_chooser_opens_nothing() -> None:
    contexts = Listed()
    app = ChooserApp(contexts)
    async with app.run_test() as pilot:
        await wait_until_async(lambda: _listed(app) == 7, DEADLINE_S, "all are listed")
        await pilot.press("escape")
        await wait_until_async(lambda: not app.is_running, DEADLINE_S, "it has ended")
    assert contexts.opened == []


def _listed(app: ChooserApp) -> int:
    screen = app.screen
    lists = screen.query(OptionList) if isinstance(screen, ContextsScreen) else ()
    return sum(one.option_count for one in lists)
