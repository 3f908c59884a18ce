"""What the results and the recording hold of one week, read with pyarrow alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.result_files import (
    HourFolder,
    UnreadableResults,
    files_of,
    hour_folders,
    read_manifest,
)
from kshunt.backend.domain.audit.lines import AuditRow
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    QUALITY,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.limits import LIMITS
from kshunt.backend.pipeline.reports.report_files import (
    Missed,
    TableOrigin,
    cluster_of,
    columns_of,
    gaps_of,
    origin_of,
    read_again,
    recorded_hours,
    rows_near,
)
from kshunt.backend.pipeline.reports.rolled_week import RolledWeek
from kshunt.backend.pipeline.reports.week_rates import WeekRates
from kshunt.backend.pipeline.results.hour_figures import COLUMNS, Before
from kshunt.backend.pipeline.results.hour_forecasts import COLUMNS as FORECAST
from kshunt.backend.pipeline.results.hour_forecasts import (
    FirstForecast,
    HourForecasts,
    forecasts_of,
)
from kshunt.backend.pipeline.results.roll_ups import last_rows, paths_before

Row = dict[str, Any]


class Stopped(Exception):
    """Somebody wants the reading to end."""


@dataclass(frozen=True, slots=True)
class WeekJournal:
    """What the cluster's journal says of a week."""

    operations: Sequence[Operation]
    """All that it lists, newest first."""
    audit: Sequence[AuditRow]
    """The lines of the week."""
    whole: bool = True
    """False where operations that ended in the week may be listed no more."""

    @classmethod
    def of(
        cls, week: Week, operations: Sequence[Operation], audit: Sequence[AuditRow]
    ) -> WeekJournal:
        """From all operations that a backend lists, and its audit of the week."""
        ends = [one.ended_ms for one in operations if one.ended_ms is not None]
        whole = len(ends) < LIMITS.operations_kept or min(ends) < week.from_ms
        return cls(operations, audit, whole)


@dataclass(slots=True)
class WeekForecasts:
    """What `eta` says of operations."""

    there: bool = False
    """The table was made."""
    held_s: dict[tuple[int, str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By day, bottleneck and operation: for how long."""
    first: dict[str, FirstForecast] = field(default_factory=dict)
    models: set[int] = field(default_factory=set)
    """Versions of the model that made them."""

    def take(self, hour_ms: int, hour: HourForecasts) -> None:
        """Take what was made of the rows of an hour; hours come in the order of time."""
        self.there = True
        self.models |= hour.models
        for operation, forecast in hour.first.items():
            self.first.setdefault(operation, forecast)
        for (bound, operation), seconds in hour.held_s.items():
            self.held_s[hour_ms - hour_ms % DAY_MS, bound, operation] += seconds


@dataclass(frozen=True, eq=False)
class WeekMaterial:
    """All that a report of a week is written from."""

    week: Week
    cluster: str
    """Its id; `?` where the recording does not say."""
    rates: WeekRates
    forecasts: WeekForecasts
    tables: Mapping[str, Any]
    """Of other tables the rows of its hours, by name; a table that was never made is not there."""
    missed: Sequence[Missed]
    made: Sequence[TableOrigin]
    sampled_hours: frozenset[int]
    """When the hours of the week begin of which there are samples."""
    problems: Sequence[str]
    """Files that cannot be read, in words; their rows are missing."""
    journal: WeekJournal | None
    """None: nobody asked for it."""

    @property
    def is_empty(self) -> bool:
        """Whether neither results nor samples nor the journal have anything of the week."""
        operations = () if self.journal is None else self.journal.operations
        week = self.week
        acted = any(
            one.started_ms < week.to_ms and (one.ended_ms or week.to_ms) >= week.from_ms
            for one in operations
        )
        return not (self.rates.hours or self.sampled_hours or acted)


def read_week(
    week: Week,
    samples: Path,
    results: Path,
    journal: WeekJournal | None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> WeekMaterial:
    """All of a week, hour by hour: from roll-ups, and of hours that have none from their rows.

    Raises:
        UnreadableResults: the manifest cannot be read.
        Stopped: `is_stopped` became true.
    """
    rolled = RolledWeek.read(week, results)
    problems = list(rolled.problems)
    rates = WeekRates()
    for hour in _hours(week, results, RATES, rolled.rates, is_stopped):
        if (figures := rolled.rates.get(hour.start_ms)) is not None:
            rates.take(hour.start_ms, figures)
        elif (rows := _rows(results, RATES, COLUMNS, hour, problems)) is not None:
            known = rates.knows_before(hour.start_ms)
            rates.add(hour.start_ms, rows, None if known else _before(results, hour))
    forecasts = WeekForecasts()
    for hour in _hours(week, results, ETA, rolled.forecasts, is_stopped):
        if (found := rolled.forecasts.get(hour.start_ms)) is not None:
            forecasts.take(hour.start_ms, found)
        elif (rows := _rows(results, ETA, FORECAST, hour, problems)) is not None:
            forecasts.take(hour.start_ms, forecasts_of(rows))
    forecasts.there = forecasts.there or bool(hour_folders(results / ETA.name))
    first, last = week.from_ms, week.to_ms - 1
    tables = {
        table.name: rows
        for table in (STALLS, BROKER_LOAD, QUALITY, QUARANTINE_FILES)
        if (rows := _table(results, table, first, last, problems)) is not None
    }
    manifest = read_manifest(results)
    return WeekMaterial(
        week=week,
        cluster=cluster_of(samples),
        rates=rates,
        forecasts=forecasts,
        tables=tables,
        missed=[gap for gap in gaps_of(samples) if gap.to_ms > first and gap.from_ms <= last],
        made=[origin_of(manifest, results, name, rows) for name, rows in tables.items()],
        sampled_hours=frozenset(filter(week.has, recorded_hours(samples))),
        problems=problems,
        journal=journal,
    )


def _hours(
    week: Week,
    results: Path,
    table: ResultTable,
    rolled: Collection[int],
    is_stopped: Callable[[], bool],
) -> Iterator[HourFolder]:
    """Each hour of the week that has a folder or is rolled up, in the order of time."""
    there = {hour.start_ms: hour for hour in hour_folders(results / table.name)}
    for start_ms in sorted(filter(week.has, {*there, *rolled})):
        if is_stopped():
            raise Stopped
        name = hour_folder(start_ms)
        yield there.get(start_ms) or HourFolder(name, results / table.name / name)


def _rows(
    results: Path,
    table: ResultTable,
    names: Sequence[str],
    hour: HourFolder,
    problems: list[str],
) -> Any:
    try:
        return read_again(results, partial(_hour, results, table, names, hour))
    except UnreadableResults as error:
        problems.append(error.message)
        return None


def _before(results: Path, hour: HourFolder) -> Before:
    """What gives last rows of the hour before, as the roll-up of an hour takes them."""
    return partial(last_rows, paths_before(results, RATES, hour, read_manifest(results)))


def _hour(results: Path, table: ResultTable, names: Sequence[str], hour: HourFolder) -> Any:
    files = [one.path for one in files_of(hour, table.name, read_manifest(results))]
    parts = [columns_of(path, names) for path in files]
    return pa.concat_tables(parts, promote_options="permissive") if parts else None


def _table(
    results: Path, table: ResultTable, first_ms: int, last_ms: int, problems: list[str]
) -> Any:
    """The table's rows whose hour is in that time; None where it was never made."""
    try:
        rows = read_again(results, partial(rows_near, results, table, first_ms, last_ms))
    except UnreadableResults as error:
        problems.append(error.message)
        return None
    if rows is None or table is not QUARANTINE_FILES or not len(rows):
        return rows
    # An hour more than the week was read, because rows of other tables lie under their end.
    start = millis_column(rows["start"])
    return rows.filter(pc.and_(pc.greater_equal(start, first_ms), pc.less_equal(start, last_ms)))


def missing_hours(hours: frozenset[int] | set[int], first_ms: int, end_ms: int) -> list[range]:
    """Stretches of hours that are not there, each from its begin to its end."""
    found: list[range] = []
    for hour in range(first_ms, end_ms, HOUR_MS):
        if hour in hours:
            continue
        if found and found[-1].stop == hour:
            found[-1] = range(found[-1].start, hour + HOUR_MS)
        else:
            found.append(range(hour, hour + HOUR_MS))
    return found
