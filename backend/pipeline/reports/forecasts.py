"""What was forecast of an operation while it ran, next to what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from kshunt.backend.domain.pipeline.result_columns import ETA
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.axes import Unit
from kshunt.backend.domain.text.formatting import clock_text, duration_text, many, percent_text
from kshunt.backend.pipeline.reports.document import (
    Block,
    Floats,
    Heading,
    Paragraph,
    Plot,
    PlotLine,
    TableBlock,
)

MOMENTS: Final = 10
_CAUSES: Final = frozenset(cause.name for cause in CAUSE_TEXTS)
_RANGE: Final = ("p10_s", "p50_s", "p90_s")

Row = dict[str, Any]


def forecasts(tables: Mapping[str, Any], operation: str, ended_ms: float | None) -> list[Block]:
    """What the operation's rows of `eta` said; `ended_ms` is its true end, if it has ended."""
    head = Heading("Forecasts of the end")
    if ETA.name not in tables:
        return [head, Paragraph("The table of forecasts was not made.")]
    rows = _of_operation(tables[ETA.name], operation, ended_ms)
    if not rows:
        return [head, Paragraph("No forecast of the whole operation was made.")]
    at = np.array([row["at"].timestamp() * 1000 for row in rows])
    low, middle, high = (_floats(rows, name) for name in _RANGE)
    lines = [PlotLine("p50", middle)]
    if ended_ms is not None:
        lines.append(PlotLine("true", (ended_ms - at) / 1000, limit=True))
    plot = Plot(
        "Time left, as forecast",
        at,
        Unit.SECONDS,
        lines,
        (PlotLine("p10", low), PlotLine("p90", high)),
    )
    table = _said(rows, at, ended_ms)
    return [head, plot, Paragraph(_accuracy(at, low, middle, high, ended_ms)), table]


def _of_operation(table: Any, operation: str, ended_ms: float | None) -> list[Row]:
    names = ("at", "rid", "operation_id", *_RANGE, "bound", "why")
    rows = [
        row
        for row in table.select(names).to_pylist()
        if row["rid"] is None and row["operation_id"] == operation
    ]
    rows.sort(key=lambda row: row["at"])
    return [row for row in rows if ended_ms is None or row["at"].timestamp() * 1000 < ended_ms]


def _floats(rows: Sequence[Row], name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def _accuracy(at: Floats, low: Floats, middle: Floats, high: Floats, end: float | None) -> str:
    known = np.isfinite(middle)
    text = f"{many(len(at), 'forecast')}; {int((~known).sum())} of them expected no end. "
    if end is None:
        return text + "It had not ended by the newest result, so none of them can be judged."
    true = (end - at) / 1000
    known &= true > 0
    if not known.any():
        return text + "None can be judged."
    held = (low <= true) & (true <= high)
    error = np.abs(middle - true) / np.where(true > 0, true, 1.0)
    third = np.minimum((np.arange(len(at)) * 3) // len(at), 2)
    errors = [percent_text(_median(error[known & (third == part)])) for part in range(3)]
    return (
        f"{text}The range held the true end in {percent_text(float(held[known].mean()))} of the "
        f"others (the target is 80%). p50 was off by {errors[0]}, {errors[1]} and {errors[2]} of "
        "the true time left, in the median of the first, second and last third of them."
    )


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def _said(rows: Sequence[Row], at: Floats, end: float | None) -> TableBlock:
    places = np.unique(np.linspace(0, len(rows) - 1, MOMENTS).round().astype(int)).tolist()
    lines = []
    for place in places:
        row = rows[place]
        true = None if end is None else (end - float(at[place])) / 1000
        lines.append(
            (
                clock_text(float(at[place]), seconds=True),
                _range_text(row),
                duration_text(row["p50_s"]),
                duration_text(true),
                _held(row, true),
                row["bound"] or "-",
            )
        )
    names = ("UTC", "p10 to p90", "p50", "true", "held", "limited by")
    return TableBlock(names, lines, frozenset(names[1:4]))


def _range_text(row: Row) -> str:
    if row["p50_s"] is None:
        why = row["why"] or "?"
        return CAUSE_TEXTS[Cause[why.upper()]].short if why.upper() in _CAUSES else why
    return f"{duration_text(row['p10_s'])} to {duration_text(row['p90_s'])}"


def _held(row: Row, true: float | None) -> str:
    if true is None or row["p10_s"] is None or row["p90_s"] is None:
        return "?"
    if row["p10_s"] <= true <= row["p90_s"]:
        return "yes"
    return "ended earlier" if true < row["p10_s"] else "ended later"
