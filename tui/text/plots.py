"""Plots with axes, drawn by plotext. Imported in a thread, when one is first shown."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotext
from rich.text import Text

from kshunt.backend.domain.replicas.snapshot import HistoryPoint
from kshunt.tui.text.formatting import Glyphs, bytes_text, duration_text

_LOCK: Final = threading.Lock()
"""plotext has one figure for the whole process."""
_TO_ASCII: Final = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot; unknown values leave a gap."""

    values: Sequence[float]
    mark: str = ""
    """The ASCII character that draws it; empty for braille, or `*` where there is none."""


def plot_remaining(
    history: Sequence[HistoryPoint], width: int, height: int, glyphs: Glyphs
) -> Text:
    """Bytes that remain against seconds ago, in exactly `width` by `height` cells."""
    points = [point for point in history if point.remaining_bytes >= 0]
    values = [float(point.remaining_bytes) for point in points]
    times = [point.at_ms for point in points]
    return plot_history(
        "Bytes remaining", times, [Series(values)], bytes_text, width, height, glyphs
    )


def plot_history(
    title: str,
    times_ms: Sequence[int],
    series: Sequence[Series],
    words: Callable[[float], str],
    width: int,
    height: int,
    glyphs: Glyphs,
) -> Text:
    """Values against seconds ago, in exactly `width` by `height` cells.

    Args:
        title: what is plotted; how much of the past it is follows.
        times_ms: when, milliseconds since the epoch, the oldest first.
        series: one value for each time.
        words: how a value is written at the axis.
        width: in cells.
        height: in lines, the title included.
        glyphs: without braille, plain ASCII is drawn.
    """
    known = any(not math.isnan(value) for one in series for value in one.values)
    if len(times_ms) < 2 or not known or width < 20 or height < 4:
        return Text(f"{title}: no history yet", no_wrap=True)
    kept = _decimated(len(times_ms), 2 * width)
    ages = [(times_ms[place] - times_ms[-1]) / 1000 for place in kept]
    lines = [Series([one.values[place] for place in kept], one.mark) for one in series]
    head = Text(f"{title}, last {duration_text(-ages[0])}", no_wrap=True)
    return Text("\n").join([head, _figure(ages, lines, words, (width, height - 1), glyphs, _ago)])


def plot_ahead(
    title: str,
    at_s: Sequence[float],
    series: Sequence[Series],
    words: Callable[[float], str],
    width: int,
    height: int,
    glyphs: Glyphs,
) -> Text:
    """Values against seconds since a beginning, in exactly `width` by `height` cells.

    Args:
        title: what is plotted.
        at_s: when, in seconds, growing.
        series: one value for each time.
        words: how a value is written at the axis.
        width: in cells.
        height: in lines, the title included.
        glyphs: without braille, plain ASCII is drawn.
    """
    if len(at_s) < 2 or at_s[-1] <= at_s[0] or not series:
        return Text(f"{title}: nothing to draw", no_wrap=True)
    if width < 20 or height < 6:
        return Text(f"{title}: no room to draw it", no_wrap=True)
    kept = _decimated(len(at_s), 2 * width)
    times = [at_s[place] for place in kept]
    lines = [Series([one.values[place] for place in kept], one.mark) for one in series]
    figure = _figure(times, lines, words, (width, height - 1), glyphs, duration_text)
    return Text("\n").join([Text(title, no_wrap=True), figure])


def _ago(age_s: float) -> str:
    return f"{duration_text(-age_s)} ago" if age_s else "now"


def _decimated(count: int, most: int) -> list[int]:
    """At most `most` places, the first and the last among them: more are not seen."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]


def _figure(
    ages: Sequence[float],
    series: Sequence[Series],
    words: Callable[[float], str],
    size: tuple[int, int],
    glyphs: Glyphs,
    when: Callable[[float], str],
) -> Text:
    top = max(value for one in series for value in one.values if not math.isnan(value))
    with _LOCK:
        plotext.terminal.limit(False, False)
        figure: Any = plotext.figure
        figure.clear()
        figure.plot_size(*size)
        figure.theme("colorless")
        figure.axes(False, side="upper", axis="x")
        figure.axes(False, side="right", axis="y")
        _label_axes(figure, ages, top, words, size[1], when)
        for one in series:
            marker = one.mark or ("braille" if glyphs.spark else "*")
            for some_ages, values in _runs(ages, one.values):
                signal = figure.signal(some_ages, values, marker=marker)
                signal.lines()
                figure.draw(signal)
        drawn = figure.build().string()
    return Text.from_ansi(drawn if glyphs.spark else drawn.translate(_TO_ASCII), no_wrap=True)


def _runs(ages: Sequence[float], values: Sequence[float]) -> list[tuple[list[float], list[float]]]:
    """Stretches of known values, so that no line is drawn over what is not known."""
    runs: list[tuple[list[float], list[float]]] = []
    open_run = False
    for age, value in zip(ages, values, strict=True):
        if math.isnan(value):
            open_run = False
            continue
        if not open_run:
            runs.append(([], []))
            open_run = True
        runs[-1][0].append(age)
        runs[-1][1].append(value)
    return runs


def _label_axes(
    figure: Any,
    ages: Sequence[float],
    top: float,
    words: Callable[[float], str],
    height: int,
    when: Callable[[float], str],
) -> None:
    """Values from 0 up, and when, in the words of the rest of the screen."""
    steps = 4 if height >= 12 else 2
    amounts = [top * step / steps for step in range(steps + 1)]
    figure.ruler("y").lim(0, top or 1)
    figure.ruler("y").ticks(amounts, [words(amount) for amount in amounts])
    times = [ages[0] + (ages[-1] - ages[0]) * step / 4 for step in range(5)]
    figure.ruler("x").lim(ages[0], ages[-1])
    figure.ruler("x").ticks(times, [when(time) for time in times])
