"""The history in plots and lines: what this session saw, and what the data pipeline delivered."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.pipeline.delivered import PipelinePast, PipelineStatus, TransferHistory
from kshunt.backend.domain.replicas.history import gaps
from kshunt.backend.domain.text.axes import Unit, axis_top
from kshunt.backend.domain.text.formatting import duration_text, rate_text
from kshunt.tui.actions.view_names import BROKERS
from kshunt.tui.facts.transfer_history import (
    SeenTransfer,
    broker_history,
    broker_produced,
    evenly,
    nothing_moved,
    permitted,
    produced,
    rates,
    remaining,
    within,
)
from kshunt.tui.tables.lines import BLANK, Line, LinePart, fitted, labelled
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.bars import sparkline
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.history.forecast_accuracy import accuracy_lines
from kshunt.tui.views.history.pipeline_results import even, section_lines, sections

if TYPE_CHECKING:
    from rich.text import Text

    from kshunt.backend.domain.backend.forecast_record import ForecastRecord
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd

SPANS_S: Final = (300.0, 900.0, 3_600.0, 21_600.0, 43_200.0, 86_400.0, 259_200.0, 1_209_600.0)
"""How much of the past can be looked at."""
SPAN_FIRST: Final = 1
KINDS: Final = ("throughput", "remaining", "stuck", "produced")
PRODUCED: Final = KINDS.index("produced")
NOTHING: Final = (
    "Nothing was copied",
    "Nothing was left to copy",
    "No copy was stuck",
    "Nothing was produced",
)
"""By kind: what is said where a plot would be a line at 0."""
PAST_KINDS: Final = ("throughput over days", "lag over days")
"""What can be plotted where the data pipeline delivered it."""
LABEL_WIDTH: Final = 11


@dataclass(frozen=True, slots=True)
class HistoryChoice:
    """What the operator looks at."""

    span: int = SPAN_FIRST
    """A place in `SPANS_S`."""
    kind: int = 0
    """A place in `kinds`."""

    @property
    def span_s(self) -> float:
        """Seconds."""
        return SPANS_S[self.span]


def first_kind(history: Sequence[SeenTransfer], span_s: float) -> int:
    """What is plotted until the operator chooses: what is produced, if nothing was moved."""
    return PRODUCED if nothing_moved(within(history, span_s)) else 0


def nothing_words(history: Sequence[SeenTransfer], chosen: HistoryChoice) -> str:
    """What is said instead of a plot that would be a line at 0; empty where it would be none."""
    moments = within(history, chosen.span_s)
    values = _values(moments, chosen.kind)
    limits = permitted(moments) if chosen.kind == 0 else []
    if len(moments) < 2 or axis_top(values, limits) != 0:
        return ""
    seconds = (moments[-1].at_ms - moments[0].at_ms) / 1000
    return f"{NOTHING[chosen.kind]} in the last {duration_text(seconds)}."


def _values(moments: Sequence[SeenTransfer], kind: int) -> list[float]:
    """What is plotted of each moment; NaN where nobody knows."""
    match KINDS[kind]:
        case "remaining":
            return remaining(moments)
        case "stuck":
            counts = [float(moment.point.stuck_replicas) for moment in moments]
            return [math.nan if count < 0 else count for count in counts]
        case "produced":
            return produced(moments)
        case _:
            return rates(moments)


LATEST: Final = HistoryChoice(span=0)
"""The throughput of the last minutes."""


def span_covering(seconds: float) -> int:
    """The place of the shortest span from `SPAN_FIRST` on that covers so much."""
    places = range(SPAN_FIRST, len(SPANS_S))
    return next((place for place in places if SPANS_S[place] >= seconds), len(SPANS_S) - 1)


def kinds(past: PipelinePast | None) -> tuple[str, ...]:
    """What can be plotted."""
    delivered = past is not None and len(past.course.course.points) > 1
    return (*KINDS, *PAST_KINDS) if delivered else KINDS


def draw_days(history: TransferHistory, kind: str, glyphs: Glyphs, width: int, height: int) -> Text:
    """A plot of what the data pipeline delivered; for a thread."""
    from kshunt.backend.domain.text.plots import Series
    from kshunt.tui.text.plots import plot_history

    times, copied, lag = even(history)
    copies = kind == PAST_KINDS[0]
    values, unit = (copied, Unit.BYTES_PER_S) if copies else (lag, Unit.BYTES)
    title = f"{kind[:1].upper()}{kind[1:]} (pipeline)"
    return plot_history(title, times, [Series(values)], unit, width, height, glyphs)


def draw_history(
    history: Sequence[SeenTransfer],
    chosen: HistoryChoice,
    end: ExpectedEnd | None,
    glyphs: Glyphs,
    width: int,
    height: int,
) -> Text:
    """A plot of what is chosen; for a thread. `end` is that of all that moves."""
    from kshunt.backend.domain.text.plots import Series
    from kshunt.tui.text.plots import plot_history

    moments = within(history, chosen.span_s)
    times = [moment.at_ms for moment in moments]
    draw = partial(
        plot_history,
        width=width,
        height=height,
        glyphs=glyphs,
        breaks=gaps(times),
        marks_ms=[moment.at_ms for moment in moments if moment.point.rates_changed],
    )
    kind, known = KINDS[chosen.kind], Series(_values(moments, chosen.kind))
    if kind == "remaining":
        return _draw_remaining(moments, end, draw)
    if kind == "stuck":
        return draw("Stuck replicas", times, [known], Unit.COUNT)
    if kind == "produced":
        title = "Nothing was moved. Produced" if nothing_moved(moments) else "Produced"
        return draw(title, times, [known], Unit.BYTES_PER_S)
    title = "Throughput of moves, and what throttles allow (-)"
    # The limit first: what is moved stands before it.
    lines = [Series(permitted(moments), "-", is_limit=True), known]
    return draw(title, times, lines, Unit.BYTES_PER_S)


def _draw_remaining(
    moments: Sequence[SeenTransfer], end: ExpectedEnd | None, draw: Callable[..., Text]
) -> Text:
    """What was left, and what will be: the expected course between the ends of the range."""
    from kshunt.backend.domain.forecast.projection import projection
    from kshunt.backend.domain.text.plots import Series

    times, left = [moment.at_ms for moment in moments], remaining(moments)
    ahead = None if end is None else projection(end)
    if ahead is None or not times:
        return draw("Bytes remaining", times, [Series(left)], Unit.BYTES)
    first = bisect_right(ahead.at_ms, times[-1])
    unknown, past = [math.nan] * (len(ahead.at_ms) - first), [math.nan] * len(times)
    courses = (
        Series([*past, *course[first:]], mark)
        for course, mark in (
            (ahead.early_bytes, "."),
            (ahead.late_bytes, "."),
            (ahead.expected_bytes, "-"),
        )
    )
    return draw(
        "Bytes remaining, expected (-) with its range (.)",
        [*times, *ahead.at_ms[first:]],
        [*courses, Series([*left, *unknown])],
        Unit.BYTES,
        now_ms=times[-1],
    )


def history_lines(
    history: Sequence[SeenTransfer],
    chosen: HistoryChoice,
    pipeline: PipelineStatus | None,
    delivered: PipelinePast | None,
    now_ms: int,
    width: int,
    glyphs: Glyphs,
    *,
    record: ForecastRecord | None = None,
    operations: Sequence[Operation] = (),
    unknown: str = "",
) -> list[Line]:
    """The data pipeline and what it delivered, how forecasts turned out, and then brokers.

    `record` and `operations`, newest first, are for the forecasts. `unknown` is why nobody will
    say anything of the pipeline, where nobody has.
    """
    label = LABEL_WIDTH if width >= 60 else 0
    room = max(width - label - 2, 1)
    parts = sections(pipeline, delivered, now_ms, room, glyphs, unknown=unknown)
    found = section_lines(parts, label)
    if accuracy := accuracy_lines(record, operations, now_ms, room, glyphs):
        found += [BLANK, *labelled("Accuracy", accuracy, label)]
    brokers = _brokers(within(history, chosen.span_s), room, glyphs)
    found += [BLANK, *labelled("Brokers", brokers, label)]
    return [line._replace(spans=(Cell(" "), *line.spans)) if line.spans else line for line in found]


# Brokers


def _brokers(moments: Sequence[SeenTransfer], width: int, glyphs: Glyphs) -> list[Line]:
    load = next((moment.load for moment in reversed(moments) if moment.load is not None), None)
    if load is None:
        return [Line((Cell("No snapshot yet.", "dim"),))]
    still = nothing_moved(moments)
    return [_broker(moments, id, still, width, glyphs) for id in load.brokers]


def _broker(
    moments: Sequence[SeenTransfer], id: int, still: bool, width: int, glyphs: Glyphs
) -> Line:
    """What it received and sent for moves; if it is `still`, what was produced to it."""
    parts = [LinePart(Cell(f"broker {id}", "strong"), 11)]
    if still:
        shown = [("produced", broker_produced(moments, id))]
    else:
        shown = list(zip(("in", "out"), broker_history(moments, id), strict=True))
    room = min(max((width - 40) // len(shown), 0), 40)
    for word, values in shown:
        drawn = evenly(moments, values, room * 2 if glyphs.spark else room)
        parts.append(LinePart(Cell(word, "dim"), max(len(word), 3)))
        if room >= 6:
            parts.append(LinePart(Cell(sparkline(drawn, room, glyphs), "good"), room, 2))
        quiet = values[-1] == 0
        text = "-" if quiet else rate_text(values[-1], tight=True) + "/s"
        parts.append(LinePart(Cell(text, "dim" if quiet else ""), 8, right=True))
    return Line(fitted(parts, width, glyphs), ("broker", id), ScreenTarget(BROKERS, id))
