"""What held operations up, from forecasts by the minute and from their roll-ups."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.telemetry.results.result_columns import moment

_MOMENT = pa.timestamp("ms", "UTC")


def bounds_in(rows: Any, since_ms: int, until_ms: float) -> list[Any]:
    """Rows of minutes between two moments, with the first and the last minute of each."""
    if rows is None:
        return []
    rows = rows.filter(pc.greater_equal(rows["minute"], moment(since_ms)))
    if until_ms < math.inf:
        rows = rows.filter(pc.less(rows["minute"], moment(round(until_ms))))
    return [_table(rows, "minute", "minute")] if len(rows) else []


def rolled_bounds(rows: Any) -> list[Any]:
    """Rows of hours or days, without those that only say that an hour was looked at."""
    if rows is None:
        return []
    rows = rows.filter(pc.is_valid(rows["bound"]))
    return [_table(rows, "first", "last")] if len(rows) else []


def bottlenecks_of(rows: Any) -> Any:
    """A row a bottleneck, the one that took most time first."""
    columns = {
        "seconds": ("seconds", "sum"),
        "operations": ("operation_id", "count_distinct"),
        "first": ("first", "min"),
        "last": ("last", "max"),
    }
    summed = rows.group_by("bound").aggregate([*columns.values()])
    summed = summed.select(["bound", *map("_".join, columns.values())])
    summed = summed.rename_columns(["bound", *columns])
    return summed.sort_by([("seconds", "descending"), ("bound", "ascending")])


def _table(rows: Any, first: str, last: str) -> Any:
    return pa.table(
        {
            "bound": rows["bound"],
            "operation_id": rows["operation_id"],
            "seconds": rows["seconds"],
            "first": rows[first].cast(_MOMENT),
            "last": rows[last].cast(_MOMENT),
        }
    )
