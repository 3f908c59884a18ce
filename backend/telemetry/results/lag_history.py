"""Lag and throughput over days: `rates`, summed up by the minute, file by file.

A replica's row stands for the time since its predecessor, so that replicas which are sampled each
second and ones which are sampled each minute add up: a mean is the sum of value times time, by the
time that has samples. Rows without a predecessor, and what is not known, add nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.domain.pipeline.delivered import TransferHistory, TransferPoint
from kshunt.backend.domain.pipeline.result_columns import RATES, TICK_S
from kshunt.backend.telemetry.results.result_columns import millis, read_columns

MINUTE_MS: Final = 60_000
_NAMES: Final = ("tick", "broker", "leader", "adding", "in_isr")
_SUMMED: Final = ("elapsed_s", "remaining_bytes", "advanced_bytes")
_SUMS: Final = ("lag_byte_s", "copied_bytes", "copy_s")

Floats = NDArray[np.float64]


def summed_up(path: Path) -> Any:
    """A file of `rates`, by the minute."""
    table = read_columns(path, RATES, (*_NAMES, *_SUMMED), _copying)
    tick = millis(table["tick"])
    elapsed, remaining, advanced = (_known(table[name]) for name in _SUMMED)
    sums = (elapsed * remaining, advanced, elapsed)
    columns = dict(zip(_SUMS, sums, strict=True))
    rows = pa.table({"minute": tick // MINUTE_MS, "first": tick, "last": tick, **columns})
    return together(rows)


def _copying(rows: Any) -> Any:
    out_of_place = pc.or_(rows["adding"], pc.invert(rows["in_isr"]))
    return pc.and_kleene(out_of_place, pc.not_equal(rows["leader"], rows["broker"]))


def together(rows: Any) -> Any:
    """A row a minute."""
    sums: list[tuple[str, str]] = [(name, "sum") for name in _SUMS]
    found = rows.group_by("minute").aggregate([("first", "min"), ("last", "max"), *sums])
    found = found.select(["minute", "first_min", "last_max", *(f"{name}_sum" for name in _SUMS)])
    return found.rename_columns(["minute", "first", "last", *_SUMS])


def transfer_history(
    rows: Any, since_ms: int, most: int, reached_ms: int | None
) -> TransferHistory:
    """At most so many points, from the rows of minutes; while nothing was copied there is none."""
    if rows is None or not len(rows):
        return TransferHistory(since_ms=reached_ms)
    rows = together(rows).sort_by("minute")
    minute = rows["minute"].to_numpy()
    wanted = minute * MINUTE_MS >= since_ms - MINUTE_MS
    if not wanted.any():
        return TransferHistory(since_ms=reached_ms)
    minute = minute[wanted]
    each = _minutes_a_point(int(minute[-1] - minute[0]) + 1, most)
    bucket = minute // each
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    lag, copied, copies = (_sums(rows[name].to_numpy()[wanted], starts) for name in _SUMS)
    seconds = _sums(_seconds(rows, wanted), starts)
    times = (bucket[starts] * each * MINUTE_MS).tolist()
    means = zip(times, lag / seconds, copied / seconds, copies / seconds, strict=True)
    points = tuple(TransferPoint(at, float(a), float(b), float(c)) for at, a, b, c in means)
    return TransferHistory(points, each * MINUTE_MS / 1000, reached_ms)


def _seconds(rows: Any, wanted: NDArray[np.bool_]) -> Floats:
    """How much of each minute has samples."""
    first, last = (rows[name].to_numpy()[wanted] for name in ("first", "last"))
    found: Floats = np.clip((last - first) / 1000 + TICK_S, TICK_S, MINUTE_MS / 1000)
    return found


def _minutes_a_point(minutes: int, most: int) -> int:
    """Round, so that points stay where they are as time goes on."""
    rounds = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720)
    return next((each for each in rounds if minutes <= each * (most - 1)), 1440)


def _sums(values: Floats, starts: NDArray[np.intp]) -> Floats:
    found: Floats = np.add.reduceat(values, starts)
    return found


def _known(column: Any) -> Floats:
    values: Floats = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    return values
