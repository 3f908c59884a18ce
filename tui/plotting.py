"""The plot of bytes that remain, drawn by plotext. Imported in a thread, when it is first shown."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import plotext
from rich.text import Text

from backend.domain.snapshot import HistoryPoint
from tui.text import Glyphs, bytes_text, duration_text

_LOCK: Final = threading.Lock()
"""plotext has one figure for the whole process."""
_TO_ASCII: Final = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")


def plot_remaining(
    history: Sequence[HistoryPoint], width: int, height: int, glyphs: Glyphs
) -> Text:
    """Bytes that remain against seconds ago, in exactly `width` by `height` cells."""
    points = [point for point in history if point.remaining_bytes >= 0]
    if len(points) < 2 or width < 20 or height < 4:
        return Text("Bytes remaining: no history yet", no_wrap=True)
    newest = points[-1].at_ms
    points = _decimated(points, 2 * width)
    ages = [(point.at_ms - newest) / 1000 for point in points]
    values = [float(point.remaining_bytes) for point in points]
    title = Text(f"Bytes remaining, last {duration_text(-ages[0])}", no_wrap=True)
    return Text("\n").join([title, _figure(ages, values, width, height - 1, glyphs)])


def _decimated(points: Sequence[HistoryPoint], most: int) -> list[HistoryPoint]:
    """At most `most` points, the first and the last among them: more cost time and are not seen."""
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    return [points[round(place * last / (most - 1))] for place in range(most)]


def _figure(
    ages: Sequence[float], values: Sequence[float], width: int, height: int, glyphs: Glyphs
) -> Text:
    with _LOCK:
        plotext.terminal.limit(False, False)
        figure: Any = plotext.figure
        figure.clear()
        figure.plot_size(width, height)
        figure.theme("colorless")
        figure.axes(False, side="upper", axis="x")
        figure.axes(False, side="right", axis="y")
        _label_axes(figure, ages, max(values), height)
        signal = figure.signal(ages, values, marker="braille" if glyphs.spark else "*")
        signal.lines()
        figure.draw(signal)
        drawn = figure.build().string()
    return Text.from_ansi(drawn if glyphs.spark else drawn.translate(_TO_ASCII), no_wrap=True)


def _label_axes(figure: Any, ages: Sequence[float], top: float, height: int) -> None:
    """Bytes from 0 up, and how long ago, in the words of the rest of the screen."""
    steps = 4 if height >= 12 else 2
    amounts = [top * step / steps for step in range(steps + 1)]
    figure.ruler("y").lim(0, top or 1)
    figure.ruler("y").ticks(amounts, [bytes_text(amount) for amount in amounts])
    times = [ages[0] * step / 4 for step in range(5)]
    words = [f"{duration_text(-time)} ago" if time else "now" for time in times]
    figure.ruler("x").ticks(times, words)
