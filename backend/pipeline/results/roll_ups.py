"""Roll-ups of settled hours, and of their days: what long questions are answered from.

A row of an hour names the run that it was made of, so an hour that a backfill has made again is
rolled up again. Rows of hours whose own rows are deleted stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.columns import read_columns
from kshunt.backend.delivered_files.minutes import (
    COPY_SUMS,
    bounds_by_minute,
    copies_by_minute,
    copies_together,
    sampled_s,
)
from kshunt.backend.delivered_files.result_files import (
    HourFolder,
    files_of,
    hour_folders,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, Manifest, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import ROLL_UPS, STREAMED, RollUp
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.results.result_runs import new_run
from kshunt.backend.pipeline.results.sorted_files import until_stopped

_COPIED: Final = ("sampled_s", *COPY_SUMS)
_BOUND: Final = ["operation_id", "bound"]
_UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)
Hours = Mapping[str, Sequence[HourFolder]]
"""Settled hours of each table that is rolled up."""


def roll_up(
    folder: Path,
    end_ms: int,
    owed: Collection[str],
    now_ms: Callable[[], int],
    is_stopped: Callable[[], bool],
) -> int:
    """Roll up the hours that end by a moment and are not `owed`; how many there were to do.

    Raises:
        ResultsBusy: a backfill makes results there; what was done until then stays.
        Stopped: `is_stopped` became true.
    """
    settled = {
        one.source.name: [
            hour
            for hour in hour_folders(folder / one.source.name)
            if hour.start_ms + HOUR_MS <= end_ms and hour.name not in owed
        ]
        for one in ROLL_UPS
    }
    days = sorted({h.start_ms // DAY_MS * DAY_MS for hours in settled.values() for h in hours})
    return sum(
        _of_day(folder, day_ms, settled, now_ms) for day_ms in until_stopped(days, is_stopped)
    )


def _of_day(folder: Path, day_ms: int, settled: Hours, now_ms: Callable[[], int]) -> int:
    manifest = read_manifest(folder)
    made: list[tuple[ResultTable, Any]] = []
    fresh = 0
    end_ms = day_ms
    for one in ROLL_UPS:
        hours = [h for h in settled[one.source.name] if day_ms <= h.start_ms < day_ms + DAY_MS]
        former = _former(folder, one.by_hour, day_ms, manifest)
        stale = _stale(hours, one.source, former, manifest)
        rows = [rows for h in stale if (rows := _of_hour(one, h, manifest)) is not None]
        if rows:
            again = pa.array([h.start_ms for h in stale])
            others = former.filter(pc.invert(pc.is_in(millis_column(former["start"]), again)))
            by_hour = pa.concat_tables([others, *rows])
            made += [(one.by_hour, by_hour), (one.by_day, _by_day(one, by_hour, day_ms))]
            fresh += len(rows)
            end_ms = max(end_ms, *(h.start_ms + HOUR_MS for h in hours))
    if made:
        with new_run(folder, day_ms, end_ms, now_ms()) as run:
            if read_manifest(folder) != manifest:
                # A backfill came in between: the next time will do.
                return 0
            for table, rows_made in made:
                run.write(table, rows_made)
            run.publish_again(None, now_ms())
    return fresh


def _former(folder: Path, table: ResultTable, day_ms: int, manifest: Manifest) -> Any:
    """The rows that a day has so far."""
    name = hour_folder(day_ms)
    files = files_of(HourFolder(name, folder / table.name / name), table.name, manifest)
    schema = _schema(table)
    found = [read_columns(file.path, table, table.names).cast(schema) for file in files]
    return pa.concat_tables([schema.empty_table(), *found])


def _stale(
    hours: Sequence[HourFolder], source: ResultTable, former: Any, manifest: Manifest
) -> list[HourFolder]:
    """The hours that are not rolled up, or of another run."""
    starts, made_of = millis_column(former["start"]).to_pylist(), former["made_of"].to_pylist()
    known = dict(zip(starts, made_of, strict=True))
    return [h for h in hours if known.get(h.start_ms) != _made_of(source, h, manifest)]


def _made_of(source: ResultTable, hour: HourFolder, manifest: Manifest) -> str:
    return manifest.hours.get(source.name, {}).get(hour.name, STREAMED)


def _of_hour(one: RollUp, hour: HourFolder, manifest: Manifest) -> Any:
    """The rows of an hour; None where a file cannot be read."""
    paths = [file.path for file in files_of(hour, one.source.name, manifest)]
    try:
        made = _MADE[one.source.name](paths, hour.start_ms)
    except _UNREADABLE:
        return None
    rows, day_ms = len(made["seconds" if one.source is ETA else "sampled_s"]), hour.start_ms
    day_ms -= day_ms % DAY_MS
    columns = {
        "day": np.full(rows, day_ms),
        "start": np.full(rows, hour.start_ms),
        "made_of": [_made_of(one.source, hour, manifest)] * rows,
        **made,
    }
    return _in_columns(one.by_hour, columns)


def _copies(paths: Sequence[Path], start_ms: int) -> dict[str, Any]:
    """One row; of an hour in which nothing was copied too."""
    minutes = [copies_by_minute(path) for path in paths]
    if not sum(map(len, minutes)):
        return {name: [0.0] for name in _COPIED}
    rows = copies_together(pa.concat_tables(minutes))
    seconds = sampled_s(rows["first"].to_numpy(), rows["last"].to_numpy())
    return {"sampled_s": [seconds.sum()], **{n: [pc.sum(rows[n]).as_py()] for n in COPY_SUMS}}


def _bounds(paths: Sequence[Path], start_ms: int) -> dict[str, Any]:
    """A row an operation and bottleneck, after one that only says that the hour was looked at."""
    minutes = [bounds_by_minute(path) for path in paths]
    columns: dict[str, list[Any]] = {
        **{name: [None] for name in _BOUND},
        **{"seconds": [0.0], "first": [start_ms], "last": [start_ms]},
    }
    if not sum(map(len, minutes)):
        return columns
    rows = pa.concat_tables(minutes)
    rows = rows.set_column(0, "minute", millis_column(rows["minute"]))
    found = rows.group_by(_BOUND).aggregate(
        [("seconds", "sum"), ("minute", "min"), ("minute", "max")]
    )
    names = (*_BOUND, "seconds_sum", "minute_min", "minute_max")
    return {
        column: [*nothing, *found[name].to_pylist()]
        for (column, nothing), name in zip(columns.items(), names, strict=True)
    }


_MADE: Final[Mapping[str, Callable[[Sequence[Path], int], dict[str, Any]]]] = {
    RATES.name: _copies,
    ETA.name: _bounds,
}


def _by_day(one: RollUp, by_hour: Any, day_ms: int) -> Any:
    if one.source is RATES:
        sums = {name: [pc.sum(by_hour[name]).as_py()] for name in _COPIED}
        return _in_columns(one.by_day, {"day": [day_ms], **sums})
    found = by_hour.group_by(_BOUND).aggregate(
        [("seconds", "sum"), ("first", "min"), ("last", "max")]
    )
    return _in_columns(
        one.by_day,
        {
            "day": np.full(len(found), day_ms),
            **{name: found[name] for name in _BOUND},
            "seconds": found["seconds_sum"],
            "first": millis_column(found["first_min"]),
            "last": millis_column(found["last_max"]),
        },
    )


def _in_columns(table: ResultTable, columns: Mapping[str, Any]) -> Any:
    """Rows in a table's columns; times are given in milliseconds."""
    schema = _schema(table)
    made = {}
    for field in schema:
        values = columns[field.name]
        if pa.types.is_timestamp(field.type):
            values = (
                pa.chunked_array([values]) if not isinstance(values, pa.ChunkedArray) else values
            )
            made[field.name] = values.cast(pa.timestamp("ms", "UTC")).cast(field.type)
        else:
            made[field.name] = values
    return pa.table(made, schema=schema)


def _schema(table: ResultTable) -> Any:
    return pa.schema(arrow_of(table.columns))
