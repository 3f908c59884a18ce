"""What the results and the recording hold of one week, read with pyarrow alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

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
    TICK_S,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
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
from kshunt.backend.pipeline.reports.week_rates import COLUMNS, WeekRates

_FORECAST: Final = ("at", "rid", "operation_id", "p10_s", "p50_s", "p90_s", "bound", "model")

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


@dataclass(frozen=True, slots=True)
class FirstForecast:
    """The first forecast of an operation that had an end."""

    at_ms: int
    p10_s: float
    p50_s: float
    p90_s: float


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

    def add(self, rows: Any) -> None:
        """Take the rows of an hour; hours come in the order of time."""
        named = pc.and_(pc.is_null(rows["rid"]), pc.is_valid(rows["operation_id"]))
        rows = rows.filter(named)
        if not len(rows):
            return
        at = millis_column(rows["at"])
        rows = rows.set_column(rows.column_names.index("at"), "at", at).sort_by("at")
        self.models |= set(pc.unique(rows["model"]).to_pylist()) - {None}
        self._add_first(rows)
        bound = rows.filter(pc.is_valid(rows["bound"]))
        if not len(bound):
            return
        day = pc.divide(bound["at"], DAY_MS)
        counted = (
            pa.table({"day": day, "bound": bound["bound"], "operation": bound["operation_id"]})
            .group_by(["day", "bound", "operation"])
            .aggregate([([], "count_all")])
        )
        for one in counted.to_pylist():
            key = (one["day"] * DAY_MS, str(one["bound"]), str(one["operation"]))
            self.held_s[key] += one["count_all"] * TICK_S

    def _add_first(self, rows: Any) -> None:
        known = rows.filter(pc.is_valid(rows["p50_s"]))
        new = [one for one in pc.unique(known["operation_id"]).to_pylist() if one not in self.first]
        for operation in new:
            row = known.filter(pc.equal(known["operation_id"], operation))[:1].to_pylist()[0]
            if row["p10_s"] is not None and row["p90_s"] is not None:
                seconds = (row["p10_s"], row["p50_s"], row["p90_s"])
                self.first[operation] = FirstForecast(row["at"], *seconds)


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
    """All of a week, hour by hour.

    Raises:
        UnreadableResults: the manifest cannot be read.
        Stopped: `is_stopped` became true.
    """
    problems: list[str] = []
    rates = WeekRates()
    for hour_ms, rows in _hours(week, results, RATES, COLUMNS, problems, is_stopped):
        rates.add(hour_ms, rows)
    forecasts = WeekForecasts()
    for _, rows in _hours(week, results, ETA, _FORECAST, problems, is_stopped):
        forecasts.there = True
        forecasts.add(rows)
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
    names: Sequence[str],
    problems: list[str],
    is_stopped: Callable[[], bool],
) -> Iterator[tuple[int, Any]]:
    """Rows of each hour of the week that has a folder, in the order of time."""
    for hour in hour_folders(results / table.name):
        if not week.has(hour.start_ms):
            continue
        if is_stopped():
            raise Stopped
        try:
            rows = read_again(results, partial(_hour, results, table, names, hour))
        except UnreadableResults as error:
            problems.append(error.message)
            continue
        if rows is not None:
            yield hour.start_ms, rows


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
