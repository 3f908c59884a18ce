"""Plots on the screen: their titles, and words where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kshunt.backend.domain.replicas.history import gaps
from kshunt.backend.domain.text.axes import CHANGE_MARKS, Unit, duration_ticks
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.domain.text.plots import Series, plot_lines
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import HistoryPoint

_TICK_CELLS = 16
"""Room for one word at the time axis: `2h30m ago`, and blanks."""


def plot_remaining(
    history: Sequence[HistoryPoint], width: int, height: int, glyphs: Glyphs
) -> Text:
    """Bytes that remain against seconds ago, within `width` by `height` cells."""
    known = [p.remaining_bytes if p.remaining_bytes >= 0 else math.nan for p in history]
    times = [point.at_ms for point in history]
    return plot_history(
        "Bytes remaining",
        times,
        [Series(known)],
        Unit.BYTES,
        width,
        height,
        glyphs,
        breaks=gaps(times),
        marks_ms=changes(history),
    )


def changes(history: Sequence[HistoryPoint]) -> list[int]:
    """When a broker got another rate."""
    return [point.at_ms for point in history if point.rates_changed]


def plot_history(
    title: str,
    times_ms: Sequence[int],
    series: Sequence[Series],
    unit: Unit,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    now_ms: int | None = None,
    breaks: Collection[int] = (),
    marks_ms: Sequence[int] = (),
) -> Text:
    """Values against seconds ago, within `width` by `height` cells.

    Args:
        title: what is plotted; how much of the past it is follows.
        times_ms: when, milliseconds since the epoch, the oldest first.
        series: one value for each time.
        unit: of the values.
        width: in cells.
        height: in lines, the title included.
        glyphs: without braille, plain ASCII is drawn.
        now_ms: of the times the last that has passed; None: the last of all.
        breaks: places of the times before which nothing is known for a while.
        marks_ms: when throttles changed.
    """
    now_ms = now_ms if now_ms is not None or not times_ms else times_ms[-1]
    at_s = [(at_ms - (now_ms or 0)) / 1000 for at_ms in times_ms]
    marks = [(at_ms - (now_ms or 0)) / 1000 for at_ms in marks_ms]
    lines = []
    if height >= 4:
        lines = _lines(at_s, series, unit, width, height - 1, glyphs, breaks, marks)
    if not lines:
        return Text(f"{title}: no history yet", no_wrap=True)
    if marks:
        title = f"{title} ({CHANGE_MARKS[glyphs.spark]} throttles changed)"
    return Text("\n".join([f"{title}, last {duration_text(-at_s[0])}", *lines]), no_wrap=True)


def plot_ahead(
    title: str,
    at_s: Sequence[float],
    series: Sequence[Series],
    unit: Unit,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> Text:
    """Values against seconds since a beginning, within `width` by `height` cells.

    Args:
        title: what is plotted.
        at_s: when, in seconds, growing.
        series: one value for each time.
        unit: of the values.
        width: in cells.
        height: in lines, the title included.
        glyphs: without braille, plain ASCII is drawn.
    """
    if len(at_s) < 2 or at_s[-1] <= at_s[0] or not series:
        return Text(f"{title}: nothing to draw", no_wrap=True)
    lines = _lines(at_s, series, unit, width, height - 1, glyphs) if height >= 6 else []
    if not lines:
        return Text(f"{title}: no space to draw it", no_wrap=True)
    return Text("\n".join([title, *lines]), no_wrap=True)


def _lines(
    at_s: Sequence[float],
    series: Sequence[Series],
    unit: Unit,
    width: int,
    height: int,
    glyphs: Glyphs,
    breaks: Collection[int] = (),
    marks: Sequence[float] = (),
) -> list[str]:
    if len(at_s) < 2 or width < 20:
        return []
    ticks = duration_ticks(at_s[0], at_s[-1], max(width // _TICK_CELLS, 1))
    return plot_lines(
        at_s,
        series,
        unit,
        ticks,
        width,
        height,
        braille=glyphs.spark,
        breaks=breaks,
        marks=marks,
    )
