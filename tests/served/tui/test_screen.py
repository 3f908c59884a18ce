"""What the terminal shows is what Textual means, whatever was left out on the way."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import textual
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.app import KshuntApp
from kshunt.tui.terminal.diff_output import BEHIND_S, BUSY_S, KEY_S, REPAINT_S, Pace, known_textual
from kshunt.tui.terminal.flow_control import (
    ASK_BYTES,
    LATE_S,
    LOST_S,
    SOON_S,
    WINDOW_BYTES,
    WINDOW_MOST,
    UnderWay,
)
from kshunt.tui.terminal.screen_diff import ScreenDiff, turned
from tests.support.terminal import terminal as terminal_of
from tests.support.tui.app import RETRY_S
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster, incident
from tests.support.tui.screen import DEADLINE_S, Emulator, all_sent, emulated, same
from tests.support.waiting import wait_until, wait_until_async

WIDTH, HEIGHT = 24, 5

# One line of the screen: pieces of text in a style. Wide, joined and combining characters too.
TEXTS = st.text(alphabet="ab  │…世界éé\U0001f600x", max_size=8)
COLOURS = st.sampled_from([None, "red", "bright_blue", "color(120)", "#102030", "default"])
STYLES = st.builds(
    Style,
    color=COLOURS,
    bgcolor=COLOURS,
    bold=st.booleans(),
    dim=st.booleans(),
    italic=st.booleans(),
    underline=st.booleans(),
    reverse=st.booleans(),
    strike=st.booleans(),
)
PIECES = st.lists(st.tuples(TEXTS, STYLES), max_size=4)
FRAMES = st.lists(st.lists(PIECES, min_size=HEIGHT, max_size=HEIGHT), min_size=1, max_size=4)


def strip_of(pieces: Sequence[tuple[str, Style]]) -> Strip:
    line = Strip([Segment(text, style) for text, style in pieces])
    return line.adjust_cell_length(WIDTH, Style())


def layout_of(frame: Sequence[Sequence[tuple[str, Style]]]) -> LayoutUpdate:
    return LayoutUpdate([[strip_of(line)] for line in frame], Region(0, 0, WIDTH, HEIGHT))


def stock(update: LayoutUpdate) -> list[list[tuple[object, ...]]]:
    """What Textual's own output leaves on a terminal."""
    terminal = Emulator(WIDTH, HEIGHT)
    terminal.write(update.render_segments(Console(color_system="truecolor")))
    return terminal.cells()


@given(FRAMES, st.sets(st.integers(0, 3)))
def test_any_frames_lead_to_the_screen_that_textual_means(
    frames: list[list[list[tuple[str, Style]]]], dropped: set[int]
) -> None:
    """Also where some of them are never sent: the last one always is."""
    diff, terminal = ScreenDiff(), Emulator(WIDTH, HEIGHT)
    diff.resize(WIDTH, HEIGHT)
    for number, frame in enumerate(frames):
        diff.take(layout_of(frame), ColorSystem.TRUECOLOR)
        if number not in dropped or number == len(frames) - 1:
            terminal.write(diff.send())
    assert terminal.cells() == stock(layout_of(frames[-1]))
    diff.take(layout_of(frames[-1]), ColorSystem.TRUECOLOR)
    assert diff.send() == "", "what is shown is not sent again"


@given(STYLES, STYLES)
def test_a_pen_turns_from_any_style_into_any_other(first: Style, second: Style) -> None:
    before, after = (Strip.render_ansi(style, ColorSystem.TRUECOLOR) for style in (first, second))
    turning, fresh = Emulator(4, 1), Emulator(4, 1)
    turning.write(f"\x1b[H{turned('', before)}a{turned(before, after)}b{turned(after, '')}c")
    fresh.write(f"\x1b[H\x1b[0;{before}ma\x1b[0;{after}mb\x1b[mc")
    assert turning.cells() == fresh.cells()


def test_only_the_cells_that_differ_are_sent() -> None:
    diff = ScreenDiff()
    diff.resize(WIDTH, HEIGHT)
    plain, red = Style(), Style(color="red")
    diff.take(layout_of([[("abcdef", plain)]] * HEIGHT), ColorSystem.TRUECOLOR)
    diff.send()
    changed = strip_of([("abX", plain), ("d", red), ("efghij", plain)])
    empty: dict[int, Strip | None] = {0: None}
    chops: list[dict[int, Strip | None]] = [empty, {0: changed}, *[empty] * (HEIGHT - 2)]
    update = ChopsUpdate(chops, [(1, 0, WIDTH)], [[WIDTH]] * HEIGHT)
    diff.take(update, ColorSystem.TRUECOLOR)
    assert diff.send() == "\x1b[2;3HX\x1b[31md\x1b[2C\x1b[mghij"


@pytest.mark.parametrize("cell", ["e\u0301", "\U000f0000", "\U0010fffd", "界", "·", "⣿"])
def test_what_a_cell_holds_is_what_is_sent(cell: str) -> None:
    diff = ScreenDiff()
    diff.resize(WIDTH, HEIGHT)
    diff.take(layout_of([[(f"a{cell}b", Style())]] * HEIGHT), ColorSystem.TRUECOLOR)
    sent = diff.send()
    assert sent.count(cell) == HEIGHT
    assert sent.count("b") == HEIGHT


def test_after_somebody_else_wrote_everything_is_sent_again() -> None:
    diff = ScreenDiff()
    diff.resize(WIDTH, HEIGHT)
    diff.take(layout_of([[("abc", Style())]] * HEIGHT), ColorSystem.TRUECOLOR)
    first = diff.send()
    assert diff.send() == ""
    diff.forget()
    assert diff.send() == first


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


# The pace


def test_keys_are_painted_at_once_and_what_comes_by_itself_at_most_four_times_a_second() -> None:
    pace = Pace()
    assert pace.wait_s(10.0, busy=False) == 0
    pace.sent(10.0)
    assert pace.wait_s(10.1, busy=False) == pytest.approx(REPAINT_S - 0.1)
    pace.pressed(10.1)
    assert pace.wait_s(10.11, busy=False) == 0
    assert pace.wait_s(10.1 + KEY_S, busy=False) == 0
    pace.sent(10.1 + KEY_S)
    assert pace.wait_s(10.2 + KEY_S, busy=False) > 0


def test_a_terminal_that_is_behind_is_not_sent_more() -> None:
    pace = Pace()
    pace.pressed(10.0)
    assert not pace.behind(10.0)
    assert pace.wait_s(10.0, busy=True) == BUSY_S
    assert pace.behind(10.0 + BEHIND_S / 2), "snapshots are shown less often"
    assert not pace.behind(10.0 + BEHIND_S)


# What the terminal has taken in


def test_no_more_is_under_way_than_the_terminal_takes_in() -> None:
    under_way = UnderWay()
    assert not under_way.sent(ASK_BYTES - 1, 0.0), "a few cells are sent without a question"
    assert under_way.sent(1, 0.0)
    assert not under_way.full(0.0)
    assert not under_way.sent(WINDOW_BYTES, 0.1), "one question at a time"
    assert under_way.full(0.1)
    under_way.answered(SOON_S / 2)
    assert under_way.under_way_bytes == WINDOW_BYTES, (
        "what came after the question is not shown yet"
    )
    assert not under_way.full(0.2)
    assert under_way.window_bytes == 2 * WINDOW_BYTES
    assert under_way.sent(WINDOW_MOST, 1.0)
    under_way.answered(1.0 + LATE_S * 2)
    assert under_way.window_bytes == WINDOW_BYTES, "a slow link has less under way"
    assert under_way.sent(WINDOW_MOST, 5.0)
    assert under_way.full(5.0 + LOST_S)
    assert not under_way.full(5.1 + LOST_S), "an answer that was lost is not waited for"


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
        give_up = time.monotonic() + DEADLINE_S
        while b"the last frame" not in read:
            assert time.monotonic() < give_up, "the last frame never comes"
            read += shown.take(0.1) or b""
            while answered <= read.count(b"?2026$p"):
                shown.press(b"\x1b[?2026;2$y")
                answered += 1
        assert shown.ended(DEADLINE_S) == 0
