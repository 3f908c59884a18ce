"""What `eta` says of an hour: what held operations up, and their first forecasts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.domain.pipeline.result_columns import TICK_S

COLUMNS: Final = ("at", "rid", "operation_id", "p10_s", "p50_s", "p90_s", "bound", "model")
"""What is read of `eta`."""


@dataclass(frozen=True, slots=True)
class FirstForecast:
    """The first forecast of an operation that had an end."""

    at_ms: int
    p10_s: float
    p50_s: float
    p90_s: float


@dataclass(slots=True)
class HourForecasts:
    """All of it, of one hour."""

    held_s: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By bottleneck and operation: for how long."""
    first: dict[str, FirstForecast] = field(default_factory=dict)
    """By operation; of one whose first forecast has no range there is none."""
    models: set[int] = field(default_factory=set)
    """Versions of the model that made them."""


def forecasts_of(rows: Any) -> HourForecasts:
    """Of rows with `COLUMNS`, in any order."""
    found = HourForecasts()
    rows = rows.filter(pc.and_(pc.is_null(rows["rid"]), pc.is_valid(rows["operation_id"])))
    if not len(rows):
        return found
    at = millis_column(rows["at"])
    rows = rows.set_column(rows.column_names.index("at"), "at", at).sort_by("at")
    found.models = set(pc.unique(rows["model"]).to_pylist()) - {None}
    _add_first(found, rows.filter(pc.is_valid(rows["p50_s"])))
    bound = rows.filter(pc.is_valid(rows["bound"]))
    counted = bound.group_by(["bound", "operation_id"]).aggregate([([], "count_all")])
    for one in counted.to_pylist():
        key = (str(one["bound"]), str(one["operation_id"]))
        found.held_s[key] += one["count_all"] * TICK_S
    return found


def _add_first(found: HourForecasts, rows: Any) -> None:
    for operation in pc.unique(rows["operation_id"]).to_pylist():
        row = rows.filter(pc.equal(rows["operation_id"], operation))[:1].to_pylist()[0]
        if row["p10_s"] is not None and row["p90_s"] is not None:
            seconds = (row["p10_s"], row["p50_s"], row["p90_s"])
            found.first[str(operation)] = FirstForecast(row["at"], *seconds)
