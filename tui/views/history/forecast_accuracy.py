"""How forecasts of operations turned out, in lines of the history. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.forecast.scoring.kept_forecasts import (
    KeptForecast,
    outcome_text,
    point_text,
    range_text,
    tally_text,
)
from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.actions.view_names import OPERATIONS
from kshunt.tui.tables.lines import Line, LinePart, fitted
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.glyphs import Glyphs

OPERATIONS_MOST: Final = 3
"""The newest ones."""


def accuracy_lines(
    record: ForecastRecord | None,
    operations: Iterable[Operation],
    now_ms: int,
    width: int,
    glyphs: Glyphs,
) -> list[Line]:
    """How often forecasts were right, then those of the newest operations; none where nothing is
    known.

    `operations` come newest first.
    """
    lines = [] if record is None else [Line((Cell(str(record)),), ("accuracy",))]
    kept = [one for one in operations if one.forecasts][:OPERATIONS_MOST]
    return lines + [line for one in kept for line in _operation(one, now_ms, width, glyphs)]


def _operation(operation: Operation, now_ms: int, width: int, glyphs: Glyphs) -> Iterable[Line]:
    target = ScreenTarget(OPERATIONS, operation.id)
    name = Cell(f"{operation.kind.value} {operation.id}", "strong")
    tally = tally_text(operation.forecasts) or operation.state.words
    head = [LinePart(name, 20), LinePart(Cell(tally), 0)]
    yield Line(fitted(head, width, glyphs), ("accuracy", operation.id), target)
    for one in operation.forecasts:
        parts = [
            LinePart(Cell(point_text(one.point), "dim"), 6, right=True),
            LinePart(Cell(range_text(one, now_ms)), 30),
            LinePart(_outcome(one), 0),
        ]
        key = ("accuracy", operation.id, one.point)
        yield Line(fitted(parts, width, glyphs), key, target)


def _outcome(one: KeptForecast) -> Cell:
    tones = {True: "good", False: "warn", None: "dim"}
    return Cell(outcome_text(one) or "open", tones[one.right])
