"""Plots with axes in characters, drawn by plotext. Imported where one is drawn, in a thread."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final

import plotext

from kshunt.backend.domain.text.axes import CHANGE_MARKS, Tick, Unit, axis_top, value_ticks

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
    is_limit: bool = False
    """The axis fits the other series; where a limit is far above them, it is not drawn."""


def plot_lines(
    at: Sequence[float],
    series: Sequence[Series],
    unit: Unit,
    ticks: Sequence[Tick],
    width: int,
    height: int,
    *,
    braille: bool = False,
    breaks: Collection[int] = (),
    marks: Sequence[float] = (),
) -> list[str]:
    """Values from 0 up against time, in lines of characters; none where nothing is known.

    Args:
        at: where on the time axis, growing.
        series: one value for each place of `at`. Later ones are drawn on top.
        unit: of the values.
        ticks: of the time axis.
        width: the most characters a line.
        height: in lines.
        braille: True draws in braille. False draws in plain ASCII.
        breaks: places of `at`. No line is drawn to them from the place before.
        marks: where on the time axis something happened. Each is a vertical line.
    """
    top = axis_top(
        chain.from_iterable(one.values for one in series if not one.is_limit),
        chain.from_iterable(one.values for one in series if one.is_limit),
    )
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
            shown = [math.nan if y > values[-1][0] else y for y in one.values]
            for xs, ys in _known_runs([x - first for x in at], shown, 2 * width, breaks):
                signal = figure.signal(xs, ys, marker=marker)
                signal.lines()
                figure.draw(signal)
        drawn = _COLOURS.sub("", figure.build().string())
    places = [(mark - first) / (at[-1] - first or 1) for mark in marks]
    lines = _marked(drawn.splitlines(), places, CHANGE_MARKS[braille])
    return [(line if braille else line.translate(_TO_ASCII)).rstrip() for line in lines]


def _marked(lines: list[str], places: Sequence[float], mark: str) -> list[str]:
    """Vertical lines in what is blank; places are from 0 to 1."""
    *plot, axis, words = lines
    left = axis.find("└") + 1
    room = len(axis) - left
    columns = {left + round(place * (room - 1)) for place in places if 0 <= place <= 1}
    for number, line in enumerate(plot):
        cells = list(line.ljust(left + room))
        for column in columns:
            cells[column] = mark if cells[column] == " " else cells[column]
        plot[number] = "".join(cells)
    return [*plot, axis, words]


def _ruler(figure: Any, axis: str, end: float, ticks: Sequence[Tick]) -> None:
    ruler = figure.ruler(axis)
    ruler.lim(0, end or 1)
    ruler.ticks([value for value, _ in ticks], [text for _, text in ticks])


def _known_runs(
    at: Sequence[float], values: Sequence[float], most: int, breaks: Collection[int]
) -> list[tuple[list[float], list[float]]]:
    """Stretches of known values, so that no line is drawn over what is not known.

    All of them together have about `most` points: more are not seen.
    """
    runs: list[list[tuple[float, float]]] = [[]]
    for place, (x, value) in enumerate(zip(at, values, strict=True)):
        if math.isnan(value) or place in breaks:
            runs.append([])
        if not math.isnan(value):
            runs[-1].append((x, value))
    share = most / max(len(at), 1)
    found = [_means(run, max(math.ceil(share * len(run)), 1)) for run in runs if run]
    return [([x for x, _ in run], [y for _, y in run]) for run in found]


def _means(run: Sequence[tuple[float, float]], most: int) -> Sequence[tuple[float, float]]:
    """At most `most` points, each the mean of neighbours; the first and the last stay."""
    if len(run) <= max(most, 2):
        return run
    edges = [place * len(run) // most for place in range(most + 1)]
    parts = [run[slice(*edge)] for edge in pairwise(edges)]
    means = [
        (math.fsum(x for x, _ in part) / len(part), math.fsum(y for _, y in part) / len(part))
        for part in parts
    ]
    return [(run[0][0], means[0][1]), *means[1:-1], (run[-1][0], means[-1][1])]
