"""Plots with axes in characters, drawn by plotext. Imported where one is drawn, in a thread."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import plotext

from kshunt.backend.domain.text.axes import Tick, Unit, value_ticks

_LOCK: Final = threading.Lock()
"""plotext has one figure for the whole process."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TO_ASCII: Final = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot; unknown values (NaN) leave a gap."""

    values: Sequence[float]
    mark: str = ""
    """The ASCII character that draws it; empty for braille, or `*` where there is none."""


def plot_lines(
    at: Sequence[float],
    series: Sequence[Series],
    unit: Unit,
    ticks: Sequence[Tick],
    width: int,
    height: int,
    *,
    braille: bool = False,
) -> list[str]:
    """Values from 0 up against time, in lines of characters; none where nothing is known.

    Args:
        at: where on the time axis, growing.
        series: one value for each of them; a later one is drawn over those before it.
        unit: of the values.
        ticks: of the time axis.
        width: at most so many characters a line.
        height: so many lines.
        braille: False draws in plain ASCII.
    """
    top = max((v for one in series for v in one.values if not math.isnan(v)), default=math.nan)
    if len(at) < 2 or math.isnan(top):
        return []
    values = value_ticks(top, unit, 4 if height >= 12 else 2)
    first = at[0]
    with _LOCK:
        plotext.terminal.limit(False, False)
        figure: Any = plotext.figure
        figure.clear()
        figure.plot_size(width, height)
        figure.theme("colorless")
        figure.axes(False, side="upper", axis="x")
        figure.axes(False, side="right", axis="y")
        _ruler(figure, "y", values[-1][0], values)
        _ruler(figure, "x", at[-1] - first, [(x - first, text) for x, text in ticks])
        for one in series:
            marker = one.mark or ("braille" if braille else "*")
            for xs, ys in _known_runs([x - first for x in at], one.values, 2 * width):
                signal = figure.signal(xs, ys, marker=marker)
                signal.lines()
                figure.draw(signal)
        drawn = _COLOURS.sub("", figure.build().string())
    lines = (drawn if braille else drawn.translate(_TO_ASCII)).splitlines()
    return [line.rstrip() for line in lines]


def _ruler(figure: Any, axis: str, end: float, ticks: Sequence[Tick]) -> None:
    ruler = figure.ruler(axis)
    ruler.lim(0, end or 1)
    ruler.ticks([value for value, _ in ticks], [text for _, text in ticks])


def _known_runs(
    at: Sequence[float], values: Sequence[float], most: int
) -> list[tuple[list[float], list[float]]]:
    """Stretches of known values, so that no line is drawn over what is not known."""
    runs: list[tuple[list[float], list[float]]] = [([], [])]
    for x, value in _means(at, values, most):
        if math.isnan(value):
            runs.append(([], []))
        else:
            runs[-1][0].append(x)
            runs[-1][1].append(value)
    return [run for run in runs if run[0]]


def _means(at: Sequence[float], values: Sequence[float], most: int) -> list[tuple[float, float]]:
    """At most so many points, each the mean of neighbours: more are not seen."""
    if len(at) <= most:
        return list(zip(at, values, strict=True))
    edges = [place * len(at) // most for place in range(most + 1)]
    parts = [slice(*edge) for edge in pairwise(edges)]
    return [(math.fsum(at[p]) / (p.stop - p.start), _mean(values[p])) for p in parts]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
