"""Roll-ups of settled hours, and of their days: what long questions are answered from.

A row of an hour names the run that it was made of, so an hour that a backfill has made again is
rolled up again. Rows of hours whose own rows are deleted stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.columns import UNREADABLE, read_columns, read_files
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
from kshunt.backend.domain.pipeline.roll_up_columns import (
    BOTTLENECKS,
    COPIES,
    FORECASTS,
    ISR_DROPS,
    MOVES,
    OPERATIONS,
    ROLL_UPS,
    STREAMED,
    TOPICS,
    RollUp,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.results.hour_figures import COLUMNS as HOUR_COLUMNS
from kshunt.backend.pipeline.results.hour_figures import (
    LAST_COLUMNS,
    HourFigures,
    LastRows,
    figures_of,
)
from kshunt.backend.pipeline.results.hour_forecasts import COLUMNS as FORECAST_COLUMNS
from kshunt.backend.pipeline.results.hour_forecasts import HourForecasts, forecasts_of
from kshunt.backend.pipeline.results.hour_rows import (
    drops_columns,
    forecasts_columns,
    moves_columns,
    operations_columns,
    topics_columns,
)
from kshunt.backend.pipeline.results.result_runs import new_run
from kshunt.backend.pipeline.results.sorted_files import until_stopped

_COPIED: Final = ("sampled_s", *COPY_SUMS)
_BOUND: Final = ["operation_id", "bound"]
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
    fresh: set[tuple[str, int]] = set()
    end_ms = day_ms
    sources: dict[tuple[str, int], SourceHour] = {}
    for one in ROLL_UPS:
        hours = [h for h in settled[one.source.name] if day_ms <= h.start_ms < day_ms + DAY_MS]
        former = _former(folder, one.by_hour, day_ms, manifest)
        rows = []
        for hour in _stale(hours, one.source, former, manifest):
            key = (one.source.name, hour.start_ms)
            if key not in sources:
                sources[key] = SourceHour.of(folder, one.source, hour, manifest)
            if (made_of_hour := _of_hour(one, sources[key])) is not None:
                rows.append(made_of_hour)
                fresh.add(key)
        if rows:
            again = pa.concat_tables(rows)["start"]
            others = former.filter(pc.invert(pc.is_in(former["start"], again)))
            by_hour = pa.concat_tables([others, *rows])
            made.append((one.by_hour, by_hour))
            if one.by_day is not None:
                made.append((one.by_day, _by_day(one, one.by_day, by_hour, day_ms)))
            end_ms = max(end_ms, *(h.start_ms + HOUR_MS for h in hours))
    if made:
        with new_run(folder, day_ms, end_ms, now_ms()) as run:
            if read_manifest(folder) != manifest:
                # A backfill came in between: the next time will do.
                return 0
            for table, rows_made in made:
                run.write(table, rows_made)
            run.publish_again(None, now_ms())
    return len(fresh)


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
    return [h for h in hours if known.get(h.start_ms) != origin_of_hour(source, h.name, manifest)]


def origin_of_hour(source: ResultTable, hour: str, manifest: Manifest) -> str:
    """What a roll-up of an hour has to be made of, to be that of its rows."""
    return manifest.hours.get(source.name, {}).get(hour, STREAMED)


def _of_hour(one: RollUp, hour: SourceHour) -> Any:
    """The rows of an hour; None where a file cannot be read."""
    try:
        made = _MADE[one.by_hour.name](hour)
    except UNREADABLE:
        return None
    rows, start_ms = len(next(iter(made.values()))), hour.start_ms
    columns = {
        "day": np.full(rows, start_ms - start_ms % DAY_MS),
        "start": np.full(rows, start_ms),
        "made_of": [hour.made_of] * rows,
        **made,
    }
    return _in_columns(one.by_hour, columns)


@dataclass(frozen=True, eq=False)
class SourceHour:
    """An hour of a table that is rolled up; its rows are read once for all that is made of them."""

    start_ms: int
    paths: Sequence[Path]
    made_of: str
    before: Sequence[Path]
    """Files of the hour before."""

    @classmethod
    def of(
        cls, folder: Path, source: ResultTable, hour: HourFolder, manifest: Manifest
    ) -> SourceHour:
        """By the files that hold."""
        paths = [file.path for file in files_of(hour, source.name, manifest)]
        before = paths_before(folder, source, hour, manifest)
        return cls(hour.start_ms, paths, origin_of_hour(source, hour.name, manifest), before)

    @cached_property
    def figures(self) -> HourFigures | None:
        """Of an hour of rates; None where it has no rows."""
        rows = read_files(self.paths, RATES, HOUR_COLUMNS)
        if rows is None or not len(rows):
            return None
        return figures_of(rows, partial(last_rows, self.before))[0]

    @cached_property
    def forecasts(self) -> HourForecasts:
        """Of an hour of forecasts."""
        rows = read_files(self.paths, ETA, FORECAST_COLUMNS)
        return HourForecasts() if rows is None else forecasts_of(rows)


def paths_before(
    folder: Path, source: ResultTable, hour: HourFolder, manifest: Manifest
) -> list[Path]:
    """The files that hold of the hour before."""
    name = hour_folder(hour.start_ms - HOUR_MS)
    before = HourFolder(name, folder / source.name / name)
    return [file.path for file in files_of(before, source.name, manifest)]


def last_rows(paths: Sequence[Path], rids: NDArray[np.int64]) -> LastRows:
    """The last rows of some replicas in an hour of rates.

    Of an hour with a damaged file nothing is known.
    """
    if not len(rids):
        return LastRows.nothing()
    wanted = pa.array(rids)
    try:
        rows = read_files(
            paths, RATES, LAST_COLUMNS, lambda rows: pc.is_in(rows["rid"], value_set=wanted)
        )
    except UNREADABLE:
        return LastRows.nothing()
    return LastRows.nothing() if rows is None else LastRows.of(rows)


def _copies(hour: SourceHour) -> dict[str, Any]:
    """One row; of an hour in which nothing was copied too."""
    minutes = [copies_by_minute(path) for path in hour.paths]
    if not sum(map(len, minutes)):
        return {name: [0.0] for name in _COPIED}
    rows = copies_together(pa.concat_tables(minutes))
    seconds = sampled_s(rows["first"].to_numpy(), rows["last"].to_numpy())
    return {"sampled_s": [seconds.sum()], **{n: [pc.sum(rows[n]).as_py()] for n in COPY_SUMS}}


def _bounds(hour: SourceHour) -> dict[str, Any]:
    """A row an operation and bottleneck, after one that only says that the hour was looked at."""
    minutes = [bounds_by_minute(path) for path in hour.paths]
    columns: dict[str, list[Any]] = {
        **{name: [None] for name in _BOUND},
        **{"seconds": [0.0], "first": [hour.start_ms], "last": [hour.start_ms]},
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


_MADE: Final[Mapping[str, Callable[[SourceHour], dict[str, Any]]]] = {
    COPIES.by_hour.name: _copies,
    BOTTLENECKS.by_hour.name: _bounds,
    MOVES.by_hour.name: lambda hour: moves_columns(hour.figures),
    OPERATIONS.by_hour.name: lambda hour: operations_columns(hour.figures, hour.start_ms),
    TOPICS.by_hour.name: lambda hour: topics_columns(hour.figures),
    ISR_DROPS.by_hour.name: lambda hour: drops_columns(hour.figures, hour.start_ms),
    FORECASTS.by_hour.name: lambda hour: forecasts_columns(hour.forecasts),
}
"""What an hour's rows of each roll-up are made by."""


def _by_day(one: RollUp, by_day: ResultTable, by_hour: Any, day_ms: int) -> Any:
    how = list(one.together.items())
    found = by_hour.group_by(list(one.keys)).aggregate(how)
    columns = {
        "day": np.full(len(found), day_ms),
        **{key: found[key] for key in one.keys},
        **{name: found[f"{name}_{by}"] for name, by in how},
    }
    times = (name for name, by in how if pa.types.is_timestamp(columns[name].type))
    columns |= {name: millis_column(columns[name]) for name in times}
    return _in_columns(by_day, columns)


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
