"""The history in plots and lines: what this session saw, and what the data pipeline delivered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from backend.domain.pipeline import PipelineStanding, PipelineTable
from tui.attention import Target
from tui.tables.base import Cell
from tui.tables.course import Moment, broker_course, permitted, rates, remaining, within
from tui.tables.lines import BLANK, Line, Part, fitted, labelled, wrapped
from tui.text import Glyphs, bytes_text, count_text, duration_text, printable, rate_text, sparkline
from tui.views import BROKERS

if TYPE_CHECKING:
    from rich.text import Text

SPANS_S: Final = (300.0, 900.0, 3_600.0, 21_600.0, 43_200.0)
"""How much of the past can be looked at."""
SPAN_FIRST: Final = 1
KINDS: Final = ("throughput", "remaining", "stuck")
LABEL_WIDTH: Final = 11
ROWS_MOST: Final = 8
"""Rows of a pipeline's table; the first ones matter most."""
SECTIONS: Final = ("lag", "throughput", "eta", "stalls", "load")
_TITLES: Final = {
    "lag": "lag over days",
    "throughput": "throughput over days",
    "eta": "ETA quantiles",
    "stalls": "stalls",
    "load": "broker load",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the operator looks at."""

    span: int = SPAN_FIRST
    """A place in `SPANS_S`."""
    kind: int = 0
    """A place in `KINDS`."""

    @property
    def span_s(self) -> float:
        """Seconds."""
        return SPANS_S[self.span]


def draw_course(
    course: Sequence[Moment], chosen: Chosen, glyphs: Glyphs, width: int, height: int
) -> Text:
    """A plot of what is chosen; for a thread."""
    from tui.plotting import Series, plot_course

    moments = within(course, chosen.span_s)
    times = [moment.at_ms for moment in moments]
    draw = partial(plot_course, width=width, height=height, glyphs=glyphs)
    kind = KINDS[chosen.kind]
    if kind == "remaining":
        return draw("Bytes remaining", times, [Series(remaining(moments))], bytes_text)
    if kind == "stuck":
        counts = [float(m.point.stuck_replicas) for m in moments]
        known = [math.nan if count < 0 else count for count in counts]
        return draw("Stuck replicas", times, [Series(known)], count_text)
    title = "Throughput of moves, and what throttles allow (-)"
    # The limit first: what is moved stands before it.
    lines = [Series(permitted(moments), "-"), Series(rates(moments))]
    return draw(title, times, lines, rate_text)


def past_lines(
    course: Sequence[Moment],
    chosen: Chosen,
    pipeline: PipelineStanding | None,
    now_ms: int,
    width: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Brokers one a line, then the pipeline's tables or why there are none."""
    label = LABEL_WIDTH if width >= 60 else 0
    room = max(width - label - 2, 1)
    brokers = _brokers(within(course, chosen.span_s), room, glyphs)
    found = labelled("Brokers", brokers, label)
    found += [BLANK, *labelled("Pipeline", _pipeline(pipeline, now_ms, room, glyphs), label)]
    return [line._replace(spans=(Cell(" "), *line.spans)) if line.spans else line for line in found]


# Brokers


def _brokers(moments: Sequence[Moment], width: int, glyphs: Glyphs) -> list[Line]:
    load = next((moment.load for moment in reversed(moments) if moment.load is not None), None)
    if load is None:
        return [Line((Cell("No snapshot yet.", "dim"),))]
    return [_broker(moments, id, width, glyphs) for id in load.brokers]


def _broker(moments: Sequence[Moment], id: int, width: int, glyphs: Glyphs) -> Line:
    received, sent = broker_course(moments, id)
    room = min(max((width - 40) // 2, 0), 40)
    parts = [Part(Cell(f"broker {id}", "strong"), 11)]
    for word, values in (("in", received), ("out", sent)):
        parts.append(Part(Cell(word, "dim"), 3))
        if room >= 6:
            parts.append(Part(Cell(sparkline(values, room, glyphs), "good"), room, 2))
        quiet = values[-1] == 0
        text = "-" if quiet else rate_text(values[-1], tight=True) + "/s"
        parts.append(Part(Cell(text, "dim" if quiet else ""), 8, right=True))
    return Line(fitted(parts, width, glyphs), ("broker", id), Target(BROKERS, id))


# The pipeline


def _pipeline(
    standing: PipelineStanding | None, now_ms: int, width: int, glyphs: Glyphs
) -> list[Line]:
    if standing is None:
        return [Line((Cell("Nobody has said yet whether one runs.", "dim"),))]
    state = Cell(f"{standing.state}:" if standing.reason else standing.state, _tone(standing))
    words = [Cell(word) for word in printable(standing.reason).split()]
    lines = wrapped([state, *words], width, 3, glyphs)
    there = {table.name: table for table in standing.tables}
    for name in (*SECTIONS, *(other for other in there if other not in SECTIONS)):
        if name in there:
            lines += _table(there[name], now_ms, width, glyphs)
    missing = [_TITLES[name] for name in SECTIONS if name not in there]
    if missing:
        words = [Cell(word, "dim") for word in f"Not here: {', '.join(missing)}.".split()]
        lines += wrapped(words, width, 3, glyphs)
    return lines


def _tone(standing: PipelineStanding) -> str:
    return {"running": "good", "failed": "bad"}.get(standing.state, "warn")


def _table(table: PipelineTable, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    """Its title with its age, and its first rows."""
    title = _TITLES.get(table.name, table.name)
    age = "empty"
    if table.newest_ms is not None:
        age = f"{duration_text(max(now_ms - table.newest_ms, 0) / 1000)} old"
    head = Line((Cell(f"{printable(title)}, {age}", "strong"),), ("table", table.name))
    rows = [_row(row, "", len(table.columns), width, glyphs) for row in table.rows[:ROWS_MOST]]
    titles = _row(table.columns, "dim", len(table.columns), width, glyphs)
    return [head, *([titles] if rows else []), *rows]


def _row(texts: Sequence[str], tone: str, columns: int, width: int, glyphs: Glyphs) -> Line:
    """Cells of one width, so that columns stand below each other."""
    room = max((width - 2) // max(columns, 1) - 1, 4)
    parts = [Part(Cell(text, tone), room) for text in texts]
    return Line((Cell("  "), *(fitted(parts, width - 2, glyphs) if parts else ())))
