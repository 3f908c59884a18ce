"""What is sent to a terminal: the cells that differ, how often, and how much ahead of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from kshunt.tui.terminal.diff_output import BEHIND_S, BUSY_S, KEY_S, REPAINT_S, Pace
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
from tests.support.tui.screen import Emulator

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


def taken(*texts: str) -> ScreenDiff:
    """A screen whose lines say this, and nothing is left to send."""
    diff = ScreenDiff()
    diff.resize(WIDTH, HEIGHT)
    lines = [[(text, Style())] for text in (*texts, *[""] * (HEIGHT - len(texts)))]
    diff.take(layout_of(lines), ColorSystem.TRUECOLOR)
    diff.send()
    return diff


def chops(y: int, x: int, text: str, end: int, *, first: int = 0, last: int = WIDTH) -> ChopsUpdate:
    """An update of one part of one line, which is seen between these columns."""
    parts: list[dict[int, Strip | None]] = [{} for _ in range(HEIGHT)]
    parts[y] = {x: Strip([Segment(text)])}
    ends = [[] if place != y else [end] for place in range(HEIGHT)]
    return ChopsUpdate(parts, [(y, first, last)], ends)


def test_a_part_of_a_line_is_cut_where_it_is_no_longer_seen() -> None:
    diff = taken("abcdefgh")
    diff.take(chops(0, 2, "CDEFG", end=5), ColorSystem.TRUECOLOR)
    assert diff.send() == "\x1b[1;3HCDE"
    diff.take(chops(0, 2, "XYZ", end=5, last=3), ColorSystem.TRUECOLOR)
    assert diff.send() == "\x1b[1;3HX"


def test_parts_outside_what_is_seen_are_left_as_they_are() -> None:
    diff = taken("abcdefgh")
    diff.take(chops(0, 4, "XY", end=6, last=3), ColorSystem.TRUECOLOR)
    diff.take(chops(0, 0, "XY", end=2, first=2), ColorSystem.TRUECOLOR)
    assert not diff.pending
    diff.take(chops(0, 0, "XY", end=2, first=1), ColorSystem.TRUECOLOR)
    assert diff.send() == "\x1b[1HXY"


def test_lines_outside_the_screen_are_ignored() -> None:
    diff = taken("abc")
    strips: list[Iterable[Strip]] = [[strip_of([("xyz", Style())])]] * (HEIGHT + 2)
    diff.take(LayoutUpdate(strips, Region(0, -1, WIDTH, HEIGHT + 2)), ColorSystem.TRUECOLOR)
    assert diff.send().count("xyz") == HEIGHT


def test_what_reaches_over_the_edge_of_the_screen_is_cut() -> None:
    diff = taken("abc")
    update = LayoutUpdate([[Strip([Segment("xyz")])]], Region(WIDTH - 2, 0, 3, 1))
    diff.take(update, ColorSystem.TRUECOLOR)
    assert diff.send() == f"\x1b[1;{WIDTH - 1}Hxy"


def test_a_terminal_of_another_size_is_sent_everything() -> None:
    diff = taken("abc")
    diff.resize(WIDTH, HEIGHT)
    diff.take(layout_of([[("abc", Style())]] * HEIGHT), ColorSystem.TRUECOLOR)
    assert diff.send().count("abc") == HEIGHT


def test_a_few_cells_between_two_changes_are_written_again_and_many_are_jumped() -> None:
    diff = taken("a12z", "a" + "1" * 10 + "z", "a1é2z")
    lines = ["A12Z", "A" + "1" * 10 + "Z", "A1é2Z"]
    update = layout_of([[(text, Style())] for text in (*lines, "", "")])
    diff.take(update, ColorSystem.TRUECOLOR)
    assert diff.send() == "\x1b[1HA12Z\x1b[2HA\x1b[10CZ\x1b[3HA\x1b[3CZ"


def test_cells_of_another_style_are_not_written_again() -> None:
    diff = ScreenDiff()
    diff.resize(WIDTH, HEIGHT)
    red = Style(color="red")

    def take(first: str, last: str) -> str:
        lines = [[(first, Style()), ("1", red), (last, Style())], *[[]] * (HEIGHT - 1)]
        diff.take(layout_of(lines), ColorSystem.TRUECOLOR)
        return diff.send()

    take("a", "z")
    assert take("A", "Z") == "\x1b[1HA\x1b[CZ"


def test_the_cursor_is_placed_anew_after_the_last_column() -> None:
    diff = taken("a" * WIDTH, "b" * WIDTH)
    update = layout_of([[("a" * (WIDTH - 1) + "A", Style())], [("B", Style())], [], [], []])
    diff.take(update, ColorSystem.TRUECOLOR)
    assert diff.send().startswith(f"\x1b[1;{WIDTH}HA\x1b[2HB ")


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
