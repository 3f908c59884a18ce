"""A plot as SVG, to stand in a page: no script, and colours are the page's own, by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.text.axes import Tick, moment_ticks, value_ticks
from kshunt.backend.pipeline.reports.document import Bars, Floats, Plot, PlotLine
from kshunt.backend.pipeline.reports.visible_text import visible, visible_name

WIDTH: Final = 760
HEIGHT: Final = 250
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 30, 34
POINTS: Final = 600
"""More are not seen."""
ROW, NAMES, VALUES = 24, 220, 110
"""Of bars: the height of one, and the widths of the columns at their sides."""
"""Characters that have room in the column of names."""


@dataclass(frozen=True, slots=True)
class _PlotArea:
    """Where values lie in the picture."""

    first_ms: float
    last_ms: float
    top: float

    def x(self, at_ms: float) -> float:
        span = max(self.last_ms - self.first_ms, 1.0)
        return LEFT + (WIDTH - LEFT - RIGHT) * (at_ms - self.first_ms) / span

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value / self.top, 1.0)


def as_svg(plot: Plot, number: int) -> str:
    """The plot; `number` tells its ids from those of other plots of the page."""
    lines = [*plot.lines, *(plot.band or ())]
    known = [float(np.nanmax(v)) for line in lines if np.isfinite(v := line.values).any()]
    if not known or len(plot.times_ms) < 2:
        return "<p>Nothing is known of it.</p>"
    ticks = value_ticks(max(known), plot.unit)
    frame = _PlotArea(float(plot.times_ms[0]), float(plot.times_ms[-1]), ticks[-1][0])
    thinned = _thinned(plot.times_ms)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="plot{number}">',
        f'<title id="plot{number}">{escape(visible(plot.title))}</title>',
        *_axes(frame, ticks),
    ]
    if plot.band is not None:
        parts.append(_area(plot, frame, thinned))
    for place, line in enumerate(plot.lines):
        points = _runs(plot.times_ms[thinned], line.values[thinned])
        parts += [_polyline(run, frame, _class(line, place)) for run in points]
    parts += [*_legend(plot), "</svg>"]
    return "\n".join(parts)


def bars_as_svg(bars: Bars, number: int) -> str:
    """The bars; `number` tells its ids from those of other plots of the page."""
    top = max((bar.value for bar in bars.rows), default=0.0) or 1.0
    height = ROW * max(len(bars.rows), 1)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="plot{number}">',
        f'<title id="plot{number}">{escape(visible(bars.title))}</title>',
        f'<path class="axis" d="M{NAMES} 0V{height}"/>',
    ]
    for place, bar in enumerate(bars.rows):
        y, size = place * ROW, (WIDTH - NAMES - VALUES) * bar.value / top
        name = visible_name(bar.name)
        parts.append(
            f'<text class="name" x="{NAMES - 8}" y="{y + 16}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
        parts.append(
            f'<rect class="bar" x="{NAMES}" y="{y + 4}" width="{size:.1f}" height="{ROW - 8}"/>'
        )
        parts.append(_text(NAMES + size + 8, y + 16, bar.text, "start"))
    return "\n".join([*parts, "</svg>"])


def _class(line: PlotLine, place: int) -> str:
    return "limit" if line.limit else f"line{place}"


def _thinned(times: Floats) -> NDArray[np.int64]:
    even = np.linspace(0, len(times) - 1, min(len(times), POINTS))
    found: NDArray[np.int64] = even.round().astype(np.int64)
    return found


def _axes(frame: _PlotArea, ticks: Sequence[Tick]) -> list[str]:
    parts = []
    for value, words in ticks:
        y = frame.y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, y + 4, words, "end"))
    for at_ms, words in moment_ticks(frame.first_ms, frame.last_ms):
        x = frame.x(at_ms)
        parts.append(f'<path class="axis" d="M{x:.1f} {HEIGHT - BOTTOM}v4"/>')
        anchor = "end" if x > WIDTH - 40 else "middle"
        parts.append(_text(x, HEIGHT - BOTTOM + 17, words, anchor))
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(_text(LEFT, HEIGHT - 3, "UTC", "start"))
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(visible(words))}</text>'


def _runs(times: Floats, values: Floats) -> list[list[tuple[float, float]]]:
    """Stretches of known values: no line is drawn over what is not known."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at_ms, value in zip(times.tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            runs[-1].append((at_ms, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _polyline(run: Sequence[tuple[float, float]], frame: _PlotArea, name: str) -> str:
    if len(run) == 1:
        run = [run[0], run[0]]
    return f'<polyline class="{name}" points="{_points(run, frame)}"/>'


def _points(run: Sequence[tuple[float, float]], frame: _PlotArea) -> str:
    return " ".join(f"{frame.x(at_ms):.1f},{frame.y(value):.1f}" for at_ms, value in run)


def _area(plot: Plot, frame: _PlotArea, thinned: NDArray[np.int64]) -> str:
    assert plot.band is not None
    low, high = (line.values[thinned] for line in plot.band)
    both = np.where(np.isfinite(low) & np.isfinite(high), 1.0, np.nan)
    times = plot.times_ms[thinned]
    parts = []
    for below, above in zip(_runs(times, low * both), _runs(times, high * both), strict=True):
        ring = [*below, *reversed(above)]
        parts.append(f'<polygon class="band" points="{_points(ring, frame)}"/>')
    return "\n".join(parts)


def _legend(plot: Plot) -> list[str]:
    """A sample of each line with its name, in a row above the plot."""
    samples = [(line.name, _class(line, i), "h22") for i, line in enumerate(plot.lines)]
    if plot.band is not None:
        samples.append((f"{plot.band[0].name} to {plot.band[1].name}", "band", "v5h22v-10h-22z"))
    parts, x = [], float(LEFT)
    for name, kind, shape in samples:
        parts.append(f'<path class="{kind}" d="M{x:.0f} 12{shape}"/>')
        parts.append(_text(x + 28, 16, name, "start"))
        x += 28 + 6.5 * len(name) + 24
    return parts
