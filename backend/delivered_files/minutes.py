"""What files of `rates` and `eta` say of each minute: for answers, and for the roll-ups of hours.

A replica's row stands for the time since its predecessor, so that replicas which are sampled each
second and ones which are sampled each minute add up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.delivered_files.columns import millis, read_columns
from kshunt.backend.delivered_files.copies import NEEDED, out_of_place, with_copies
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, TICK_S

MINUTE_MS: Final = 60_000
_NAMES: Final = ("tick", "remaining_bytes", *NEEDED)
_SUMMED: Final = ("copied_s", "remaining_bytes", "copied_bytes")
COPY_SUMS: Final = ("lag_byte_s", "copied_bytes", "copy_s")

Floats = NDArray[np.float64]


def copies_by_minute(path: Path) -> Any:
    """A file of `rates`, by the minute."""
    table = with_copies(read_columns(path, RATES, _NAMES, _may_be_copied))
    table = table.filter(pc.is_valid(table["copied_from"]))
    tick = millis(table["tick"])
    elapsed, remaining, copied = (_known(table[name]) for name in _SUMMED)
    sums = (elapsed * remaining, copied, elapsed)
    columns = dict(zip(COPY_SUMS, sums, strict=True))
    rows = pa.table({"minute": tick // MINUTE_MS, "first": tick, "last": tick, **columns})
    return copies_together(rows)


def _may_be_copied(rows: Any) -> Any:
    return pc.or_(out_of_place(rows), pc.is_valid(rows["copied_from"]))


def copies_together(rows: Any) -> Any:
    """A row a minute."""
    sums: list[tuple[str, str]] = [(name, "sum") for name in COPY_SUMS]
    found = rows.group_by("minute").aggregate([("first", "min"), ("last", "max"), *sums])
    found = found.select(
        ["minute", "first_min", "last_max", *(f"{name}_sum" for name in COPY_SUMS)]
    )
    return found.rename_columns(["minute", "first", "last", *COPY_SUMS])


def sampled_s(first_ms: NDArray[np.int64], last_ms: NDArray[np.int64]) -> Floats:
    """How much of each minute has samples, by its first and its last tick."""
    found: Floats = np.clip((last_ms - first_ms) / 1000 + TICK_S, TICK_S, MINUTE_MS / 1000)
    return found


def _known(column: Any) -> Floats:
    values: Floats = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    return values


def bounds_by_minute(path: Path) -> Any:
    """For how long of each minute what held each operation up, of a file."""

    def of_operations(rows: Any) -> Any:
        named = pc.and_(pc.is_valid(rows["operation_id"]), pc.is_valid(rows["bound"]))
        return pc.and_(pc.is_null(rows["rid"]), named)

    names = ("tick", "rid", "operation_id", "bound")
    rows = read_columns(path, ETA, names, of_operations)
    minute = millis(rows["tick"]) // MINUTE_MS * MINUTE_MS
    columns = {
        "minute": pa.array(minute, pa.timestamp("ms", "UTC")),
        "operation_id": rows["operation_id"],
        "bound": rows["bound"],
        "seconds": pa.array(np.full(len(rows), float(TICK_S))),
    }
    return bounds_together(pa.table(columns))


def bounds_together(rows: Any) -> Any:
    keys = ["minute", "operation_id", "bound"]
    found = rows.group_by(keys).aggregate([("seconds", "sum")])
    return found.select([*keys, "seconds_sum"]).rename_columns([*keys, "seconds"])
