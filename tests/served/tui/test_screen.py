"""What the terminal shows is what Textual means, whatever was left out on the way."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import textual
from textual.pilot import Pilot

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.terminal.diff_output import known_textual
from kshunt.tui.terminal.flow_control import WINDOW_BYTES
from tests.support.terminal import terminal as terminal_of
from tests.support.tui.app import RETRY_S
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.screen import DEADLINE_S, Emulator, all_sent, emulated, same
from tests.support.waiting import give_up_at_s, wait_until, wait_until_async

# The app


def world() -> ScriptedCluster:
    """A move under way, and names of wide characters."""
    cluster = incident()
    for number, name in enumerate(("支付-订单", "zahlungen-é", "ab界c")):
        cluster.partitions[TopicPartition(name, 0)] = cluster.partitions.pop(
            TopicPartition("orders", number)
        )
    return cluster


@asynccontextmanager
async def running(
    tmp_path: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[KshuntApp, Pilot[None], Emulator, ScriptedBackend]]:
    """The dashboard in an emulated terminal, once its first table is there."""
    async with ScriptedBackend(tmp_path / "s", world()) as backend:
        app = KshuntApp(backend.address, start_view=PARTITIONS, retry_s=(RETRY_S,))
        async with emulated(app, size) as (pilot, terminal):
            await wait_until_async(lambda: bool(app.store.jobs), DEADLINE_S, "the first table")
            await pilot.pause()
            yield app, pilot, terminal, backend


KEYS = (
    *("j", "j", "k", "pagedown", "G", "g", "space", "f", "f"),
    *("2", "3", "4", "5", "6", "1", "2", "enter", "escape"),
    *("slash", "a", "b", "enter", "question_mark", "pagedown", "escape", "escape"),
    *("ctrl+p", "t", "h", "escape", "s", "s", "S", "o", "escape"),
)


@pytest.mark.parametrize("size", [(80, 24), (131, 40), (40, 12)])
async def test_the_terminal_shows_what_textual_means(tmp_path: Path, size: tuple[int, int]) -> None:
    """Views, dialogues, the palette, the filter line, sorting, marks; and ticks between them."""
    async with running(tmp_path, size) as (app, pilot, terminal, backend):
        await same(app, pilot, terminal, "the start")
        for number, key in enumerate(KEYS):
            await pilot.press(key)
            await same(app, pilot, terminal, f"key {number} {key}")
            if number % 5 == 0:
                backend.publish()


async def test_wide_names_are_whole(tmp_path: Path) -> None:
    async with running(tmp_path) as (app, pilot, terminal, _):
        await pilot.press("slash", "支", "enter")
        await wait_until_async(lambda: "支付-订单" in terminal.text(), DEADLINE_S, "the wide name")
        await pilot.press("j", "j", "k")
        await same(app, pilot, terminal, "moving over wide names")


async def test_themes_and_sizes_change_everything(tmp_path: Path) -> None:
    async with running(tmp_path) as (app, pilot, terminal, backend):
        for theme in sorted(app.available_themes)[:4]:
            app.theme = theme
            await same(app, pilot, terminal, f"theme {theme}")
        for size in ((131, 40), (20, 5), (80, 24), (81, 24)):
            terminal.resize(*size)
            await pilot.resize_terminal(*size)
            backend.publish()
            await same(app, pilot, terminal, f"size {size}")


async def test_when_nothing_changes_nothing_is_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as (app, pilot, terminal, _backend):
        await same(app, pilot, terminal, "the start")
        terminal.written.clear()
        app._display(app.screen, None)
        app.refresh()
        app.screen.refresh()
        await all_sent(app, pilot)
        assert "".join(terminal.written) == ""


async def test_what_was_suspended_is_painted_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as (app, pilot, terminal, _):
        await same(app, pilot, terminal, "the start")
        terminal.resize(80, 24)
        app.redraw()
        await same(app, pilot, terminal, "a redraw")
        terminal.resize(80, 24)
        app.app_suspend_signal.publish(app)
        app.app_resume_signal.publish(app)
        app.refresh(layout=True)
        await same(app, pilot, terminal, "a suspension")


async def test_textual_draws_where_it_is_not_the_one_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known_textual(KshuntApp("unix:/nowhere"))
    monkeypatch.setattr(textual, "__version__", "8.2.9")
    app = KshuntApp(f"unix:{tmp_path}/nobody", retry_s=(RETRY_S,))
    assert not known_textual(app)
    async with emulated(app) as (pilot, terminal):
        await pilot.pause()
        await wait_until_async(lambda: "kshunt" in terminal.text(), DEADLINE_S, "stock output")


CHANGING = """
import sys
from textual.app import ComposeResult
from textual.widgets import Static
from kshunt.tui.terminal.diff_output import DiffApp

class Changing(DiffApp):
    frames = 0

    def compose(self) -> ComposeResult:
        yield Static()

    def on_terminal_supports_synchronized_output(self) -> None:
        if not self.frames:
            self.set_interval(0.01, self.change)

    def change(self) -> None:
        self.frames += 1
        if self.frames <= 60:
            self._pace.pressed(__import__("time").monotonic())
            letters = [chr(97 + (self.frames + place) % 26) for place in range(1600)]
            self.query_one(Static).update("".join(letters))
        elif self.frames == 61:
            open(sys.argv[1], "w").write(f"{self._under_way.under_way_bytes}")
            self.query_one(Static).update("the last frame")
        elif not self._diff.pending:
            self.exit()

Changing().run()
"""


def test_frames_are_dropped_for_a_terminal_that_does_not_read(tmp_path: Path) -> None:
    """Sixty screens are wanted; what is under way stays bounded, and the last one comes."""
    told = tmp_path / "told"
    command = [sys.executable, "-c", CHANGING, str(told)]
    with terminal_of(command, {"COLORTERM": "truecolor"}) as shown:
        shown.until(rb"\?2026\$p", DEADLINE_S)
        shown.press(b"\x1b[?2026;2$y")
        wait_until(told.exists, DEADLINE_S, "all screens were wanted")
        wait_until(lambda: bool(told.read_text()), DEADLINE_S, "it says so")
        assert 1_000 < int(told.read_text()) < WINDOW_BYTES + 4_000
        read, answered = b"", 1
        give_up = give_up_at_s(DEADLINE_S)
        while b"the last frame" not in read:
            assert time.monotonic() < give_up, "the last frame never comes"
            read += shown.take(0.1) or b""
            while answered <= read.count(b"?2026$p"):
                shown.press(b"\x1b[?2026;2$y")
                answered += 1
        assert shown.ended(DEADLINE_S) == 0
