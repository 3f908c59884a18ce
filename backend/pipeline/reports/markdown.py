"""A document as Markdown, whose plots are plain characters: they survive a mail and a ticket."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import plotext

from kshunt.backend.pipeline.reports.axes import time_marks, value_marks, value_text
from kshunt.backend.pipeline.reports.document import (
    Block,
    Bullets,
    Document,
    Facts,
    Floats,
    Heading,
    Line,
    Paragraph,
    Plot,
    Table,
)
from kshunt.backend.pipeline.reports.words import visible

WIDTH: Final = 78
HEIGHT: Final = 15
_MARKS: Final = ("*", "o", "+")
_LIMIT: Final = "-"
_BAND: Final = "."
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TO_ASCII: Final = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")
_ESCAPES: Final = str.maketrans(
    # A backslash before one of these would be taken for something else in a table.
    {"\\": "&#92;", "`": "&#96;", "|": "&#124;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
    | {character: f"\\{character}" for character in "*_[]~$#"}
)


def as_markdown(document: Document) -> str:
    """The whole document."""
    parts = [f"# {escaped(document.title)}", *map(_block, document.blocks)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """The text on one line of Markdown, without any effect on it."""
    return visible(text).translate(_ESCAPES)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {escaped(block.text)}"
        case Paragraph():
            return escaped(block.text)
        case Facts():
            return "\n".join(f"- **{escaped(name)}**: {escaped(so)}" for name, so in block.rows)
        case Bullets():
            return "\n".join(f"- {escaped(item)}" for item in block.items)
        case Table():
            return _table(block)
        case Plot():
            return f"**{escaped(block.title)}**\n\n```text\n{_plot(block)}\n```"


def _table(table: Table) -> str:
    rules = ("---:" if name in table.numbers else "---" for name in table.columns)
    rows = [table.columns, *table.rows]
    lines = [f"| {' | '.join(map(escaped, row))} |" for row in rows]
    return "\n".join([lines[0], f"| {' | '.join(rules)} |", *lines[1:]])


# Plots


def _plot(plot: Plot) -> str:
    lines = _marked(plot)
    tops = [float(np.nanmax(v)) for line, _ in lines if np.isfinite(v := line.values).any()]
    if not tops or len(plot.times_ms) < 2:
        return "(nothing is known of it)"
    marks = value_marks(max(tops), plot.unit, 4)
    drawn = _drawn(plot, lines, marks)
    names = "   ".join(f"{mark} {visible(line.name)}" for line, mark in lines)
    return f"{drawn}\nUTC; {names}"


def _marked(plot: Plot) -> list[tuple[Line, str]]:
    """Lines with the characters that draw them, those that may be covered first."""
    limits = [(line, _LIMIT) for line in plot.lines if line.limit]
    others = [line for line in plot.lines if not line.limit]
    band = [(line, _BAND) for line in plot.band or ()]
    return [*band, *limits, *zip(others, _MARKS, strict=False)]


def _drawn(plot: Plot, lines: list[tuple[Line, str]], marks: list[float]) -> str:
    first, last = float(plot.times_ms[0]), float(plot.times_ms[-1])
    # plotext has one figure for the whole process.
    plotext.terminal.limit(False, False)
    figure: Any = plotext.figure
    figure.clear()
    figure.plot_size(WIDTH, HEIGHT)
    figure.theme("colorless")
    figure.axes(False, side="upper", axis="x")
    figure.axes(False, side="right", axis="y")
    figure.ruler("y").lim(0, marks[-1])
    figure.ruler("y").ticks(marks, [value_text(mark, plot.unit) for mark in marks])
    times = time_marks(first, last, 6)
    figure.ruler("x").lim(0, max(last - first, 1.0))
    figure.ruler("x").ticks([at - first for at, _ in times], [words for _, words in times])
    for line, mark in lines:
        at, values = _columns(plot.times_ms - first, line.values)
        if at:
            figure.draw(figure.signal(at, values, marker=mark))
    plain = _COLOURS.sub("", figure.build().string())
    text = "\n".join(row.rstrip() for row in plain.splitlines())
    return text.translate(_TO_ASCII)


def _columns(times: Floats, values: Floats) -> tuple[list[float], list[float]]:
    """A point a column of characters: the mean of what is known in it."""
    span = max(float(times[-1] - times[0]), 1.0)
    known = np.isfinite(values)
    place = np.minimum(((times[known] - times[0]) / span * WIDTH).astype(np.int64), WIDTH - 1)
    counts = np.bincount(place, minlength=WIDTH)
    sums = np.bincount(place, values[known], WIDTH)
    there = np.flatnonzero(counts)
    at = (float(times[0]) + (there + 0.5) * span / WIDTH).tolist()
    return at, (sums[there] / counts[there]).tolist()
