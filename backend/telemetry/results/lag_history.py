"""Lag and throughput over days, from what `rates` say of each minute, or their roll-ups of hours.

A mean is the sum of value times time, by the time that has samples. Rows without a predecessor, and
what is not known, add nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshunt.backend.delivered_files.columns import millis
from kshunt.backend.delivered_files.minutes import (
    COPY_SUMS,
    MINUTE_MS,
    Floats,
    copies_together,
    sampled_s,
)
from kshunt.backend.domain.pipeline.delivered import TransferHistory, TransferPoint

_DAY: Final = 1440
"""Minutes."""


def transfer_history(
    rows: Any,
    since_ms: int,
    most: int,
    reached_ms: int | None,
    rolled: Any = None,
    rolled_ms: int = MINUTE_MS,
) -> TransferHistory:
    """At most `most` points, from the rows of minutes; while nothing was copied there is none.

    `rolled` are rows of longer times, of up to `rolled_ms`, with their `start`.
    """
    parts = [_of_minutes(rows, since_ms)] if rows is not None and len(rows) else []
    parts += [_of_roll_ups(rolled)] if rolled is not None and len(rolled) else []
    found = pa.concat_tables(parts).sort_by("minute") if parts else None
    if found is None or not len(found):
        return TransferHistory(since_ms=reached_ms)
    minute = found["minute"].to_numpy()
    each = _minutes_a_point(int(minute[-1] - minute[0]) + 1, most, rolled_ms // MINUTE_MS)
    bucket = minute // each
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    seconds, *sums = (_sums(found[name].to_numpy(), starts) for name in ("seconds", *COPY_SUMS))
    times = (bucket[starts] * each * MINUTE_MS).tolist()
    means = zip(times, *(values / seconds for values in sums), strict=True)
    points = tuple(TransferPoint(at, float(a), float(b), float(c)) for at, a, b, c in means)
    return TransferHistory(points, each * MINUTE_MS / 1000, reached_ms)


def _of_minutes(rows: Any, since_ms: int) -> Any:
    rows = copies_together(rows)
    minute, first, last = (rows[name].to_numpy() for name in ("minute", "first", "last"))
    sums = {name: rows[name] for name in COPY_SUMS}
    found = pa.table({"minute": minute, "seconds": sampled_s(first, last), **sums})
    return found.filter(pa.array(minute * MINUTE_MS >= since_ms - MINUTE_MS))


def _of_roll_ups(rows: Any) -> Any:
    sums = {name: rows[name] for name in COPY_SUMS}
    minute = millis(rows["start"]) // MINUTE_MS
    found = pa.table({"minute": minute, "seconds": rows["sampled_s"], **sums})
    return found.filter(pa.array(rows["sampled_s"].to_numpy() > 0))


def _minutes_a_point(minutes: int, most: int, least: int) -> int:
    """A round number, so that points stay where they are as time passes."""
    rounds = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720)
    fits = (each for each in rounds if each >= least and minutes <= each * (most - 1))
    return next(fits, _DAY * max(1, -(-minutes // (_DAY * (most - 1)))))


def _sums(values: NDArray[np.float64], starts: NDArray[np.intp]) -> Floats:
    found: Floats = np.add.reduceat(values, starts)
    return found
