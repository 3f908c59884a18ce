"""The dashboard under strain: lost connections, hostile text, odd terminals, any key at all."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import pytest
from textual.geometry import Region

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.tui.actions import ACTIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.grid.grid import Grid
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.app import (
    ManualTime,
    Shown,
    dashboard,
    press_at_random,
    threads_have_ended,
)
from tests.support.tui.backend import Problem, ScriptedBackend
from tests.support.tui.cluster import incident
from tests.support.waiting import wait_until_async


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, at 80x24."""
    async with dashboard(tmp_path / "s", incident()) as running:
        yield running


# The connection


async def test_a_lost_connection_freezes_the_screen_and_says_so(shown: Shown) -> None:
    await shown.press("f", "j", "j", "j")
    rows, cursor = shown.lines()[3:-1], shown.cursor
    await shown.backend.stop()
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")
    assert shown.lines()[4:-1] == rows[:-1]
    shown.time.now += 41
    await shown.until(lambda: "frozen 41s ago" in shown.frame(), "the age is said")
    await shown.press("c")
    assert "nothing can be sent until it is back" in shown.said
    shown.backend.cluster.step()
    await shown.backend.start()
    await shown.until(lambda: "live" in shown.lines()[0], "it is back")
    await shown.until_shown()
    assert shown.cursor == cursor
    assert shown.app.store.queries["partitions"].follow


async def test_a_restart_of_the_backend_keeps_the_operators_place(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("orders")
    await shown.press("enter", "j", "space", "space", "s")
    marked, cursor = set(shown.grid.marked), shown.cursor
    assert len(marked) == 2
    await shown.backend.stop()
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")
    shown.backend.snapshot = shown.backend.cluster.step()
    await shown.backend.start()
    await shown.until(lambda: "live" in shown.lines()[0], "it is back")
    await shown.until_shown()
    assert set(shown.grid.marked) == marked
    assert shown.cursor == cursor
    assert shown.app.current_mode == "partitions"
    assert shown.app.store.queries["partitions"].filter_text == "orders"


async def test_a_dialogue_stays_open_while_the_backend_restarts(shown: Shown) -> None:
    await shown.press("question_mark")
    dialogue = await shown.dialog(HelpScreen)
    await shown.backend.stop()
    await shown.until(lambda: shown.app.store.scene.lost, "the loss is noticed")
    shown.backend.snapshot = shown.backend.cluster.step()
    await shown.backend.start()
    await shown.until(lambda: shown.app.store.scene.live, "it is back")
    assert shown.app.screen is dialogue
    await shown.press("escape")
    await shown.closed()
    assert "live" in shown.lines()[0]


async def test_a_backend_that_comes_back_with_another_cluster_is_shown_as_such(
    shown: Shown,
) -> None:
    await shown.press("space", "space")
    await shown.backend.stop()
    shown.backend.cluster.cluster_id = "another-cluster-id"
    shown.backend.snapshot = shown.backend.cluster.step()
    await shown.backend.start()
    await shown.until(lambda: "another-cluster-id" in shown.frame(), "the new cluster is named")
    assert "This is another cluster now: another-cluster-id." in shown.said
    assert not shown.grid.marked, "marks were made on another cluster"


async def test_operations_come_as_they_happen_and_are_resumed(shown: Shown) -> None:
    cluster, backend = shown.backend.cluster, shown.backend
    await shown.press("5")
    assert "No request was made here; 6 throttled moves of others (t)." in shown.frame()
    backend.announce(cluster.note(OperationKind.REASSIGN, "6 partitions of 3 topics"))
    await shown.until(lambda: "6 partitions of 3" in shown.frame(), "the operation is listed")
    running = cluster.operations["op-1"].to(OperationState.RUNNING, at_ms=cluster.now_ms)
    backend.announce(running)
    await shown.until(lambda: "running" in shown.frame(), "it runs")
    await backend.stop()
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")
    failed = running.to(OperationState.FAILED, at_ms=cluster.now_ms, outcome="no quorum")
    backend.announce(failed)
    await backend.start()
    await shown.until(lambda: "no quorum" in shown.frame(), "what was missed is resumed")
    backend.announce(running)
    cluster.operations["op-1"] = failed
    cluster.note(OperationKind.CANCEL, "seen only in the list")
    backend.reset_events()
    await shown.until(lambda: "seen only in" in shown.frame(), "a reset reads the list anew")
    assert "failed" in shown.frame()
    assert "running" not in shown.frame()


async def test_alerts_are_said(shown: Shown) -> None:
    shown.backend.alert("Throttle of broker 3 was changed by somebody else.")
    await shown.until(lambda: "changed by somebody else" in shown.said, "the alert is said")
    await shown.press("j")
    assert shown.said == ""


async def test_an_alert_may_come_when_the_screens_are_gone(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as running:
        app = running.app
    app.say("Broker 3 went away.", "warn")
    assert app.seen == (app.current_mode, "")


# Hostile text, terminals, sizes


async def test_text_from_the_cluster_is_never_markup_nor_control(tmp_path: Path) -> None:
    cluster = incident()
    cluster.partitions[TopicPartition("cfg[red]x[/red]", 0)] = cluster.partitions.pop(
        TopicPartition("orders", 0)
    )
    cluster.down = {3: "[bold]boom[/x]\x1b[2J\u202eevil"}
    async with dashboard(tmp_path / "s", cluster) as shown:
        shown.backend.failing = {}
        text = shown.frame()
        assert "[bold]boom[/x]?[2J?evil" in text
        await shown.press("slash")
        await shown.write("cfg")
        await shown.press("enter")
        assert "cfg[red]x[/red]" in shown.frame()
        await shown.press("enter")
        await shown.dialog(RowDetailsScreen)
        assert "cfg[red]x[/red]" in shown.frame()
        await shown.press("escape", "c")
        await shown.until(lambda: "cfg[red]x[/red]-0" in shown.frame(), "the question is asked")
        assert "\x1b" not in shown.frame()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (1, 1), (120, 12)])
async def test_any_size_and_back(shown: Shown, size: tuple[int, int]) -> None:
    await shown.press("j", "j", "j")
    for view in "1234":
        await shown.press(view)
        await shown.resize(*size)
        keys = "j G g s p f f question_mark j escape enter escape o escape slash escape e escape"
        await shown.pilot.press(*keys.split())
        await shown.closed()
        await shown.publish()
        await shown.resize(80, 24)
    await shown.until(lambda: len(shown.lines()) == 24, "the former size is laid out")
    assert "live" in shown.lines()[0]


async def test_at_20x5_the_connection_and_rows_are_still_there(shown: Shown) -> None:
    await shown.resize(20, 5)
    lines = shown.lines()
    assert "live" in lines[0]
    assert len(lines) == 5
    assert lines[2].split()[0] == "audit-log"


async def test_an_ascii_terminal_gets_ascii_only(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident(), glyphs=ASCII, plain=True) as shown:
        await shown.publish()
        for view in "1234":
            await shown.press(view, "s")
            assert shown.frame().isascii()
        await shown.press("2", "f", "space", "p")
        await shown.until(lambda: "Bytes remaining" in shown.frame(), "the plot is drawn")
        assert shown.frame().isascii()
        await shown.press("question_mark")
        await shown.dialog(HelpScreen)
        assert shown.frame().isascii()


async def test_no_color_has_no_colours_and_a_visible_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    async with dashboard(tmp_path / "s", incident(), plain=True) as shown:
        await shown.press("f", "j")
        segments = [s for strip in shown.app.screen._compositor.render_strips() for s in strip]
        colours = {
            colour.name
            for segment in segments
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert colours <= {"default"}
        reverse = [s.text for s in segments if s.style is not None and s.style.reverse]
        assert any(str(shown.grid.cursor_key[1]) in text for text in reverse)  # type: ignore[index]


# Only what changed


class CountingGrid(Grid):
    """Counts the lines that it wants painted."""

    painted = 0

    def refresh(self, *regions: Region, **options: Any) -> Self:
        """Count, and refresh."""
        CountingGrid.painted += sum(region.height for region in regions or (self.size.region,))
        return super().refresh(*regions, **options)


async def test_a_refresh_paints_only_lines_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshunt.tui.views.table_screen.Grid", CountingGrid)
    async with dashboard(tmp_path / "s", incident(), size=(80, 40)) as shown:
        await shown.press("f", "j")
        CountingGrid.painted = 0
        await shown.publish()
        assert CountingGrid.painted == 6
        for state in shown.backend.cluster.partitions.values():
            state.copied.clear()
        await shown.publish()
        CountingGrid.painted = 0
        await shown.publish()
        assert CountingGrid.painted == 0


# Anything at all

KEYS = sorted({key for action in ACTIONS for key in action.keys} - {"q"})
OTHER_KEYS = ["y", "n", "h", "tab", "shift+tab", "x", "left", "right", "backspace", "w"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_keys_never_end_it_nor_change_anything_unasked(
    shown: Shown, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`y` is held back while a question is open; without it nothing may be changed."""
    # The audit may be written by chance.
    monkeypatch.chdir(tmp_path)

    def keys() -> list[str]:
        asking = isinstance(shown.app.screen, ConfirmScreen)
        return [key for key in KEYS + OTHER_KEYS if not asking or key in ("escape", "n", "j", "k")]

    await press_at_random(shown, keys, 60, seed)


async def test_leaving_lets_go_of_the_backend(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    async with ScriptedBackend(tmp_path / "s", incident()) as backend:
        app = KshuntApp(backend.address)
        async with app.run_test() as pilot:
            shown = Shown(app, pilot, backend, ManualTime())
            await shown.until(lambda: backend.readers == 1, "the stream is open")
            await pilot.press("q")
        await wait_until_async(lambda: backend.readers == 0, 5.0, "the stream is closed")
        await threads_have_ended(before)


async def test_a_view_that_cannot_be_computed_says_so_and_keeps_its_rows(shown: Shown) -> None:
    before = shown.lines()[3:-1]
    shown.app.store.ask("partitions", terms=("no term",))
    shown.app.compute_table("partitions")
    await shown.until(lambda: "cannot be computed" in shown.said, "the failure is said")
    assert shown.lines()[3:-1] == before
    shown.app.store.ask("partitions", terms=())
    await shown.publish()
    assert "audit-log" in shown.frame()


async def test_operations_that_cannot_be_read_are_said_to_be_old(shown: Shown) -> None:
    shown.backend.events_problem = Problem(403, "The events are not for you.")
    shown.backend.cut_events()
    await shown.until(lambda: "may be out of date: The events" in shown.said, "it is said")
    assert shown.app.store.scene.live
