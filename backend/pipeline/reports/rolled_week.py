"""A week from its roll-ups, which are kept for years when the rows of each tick are gone.

A roll-up of an hour counts if it was made of the rows that the hour has now, or if these are gone.
An hour that a backfill has made again is read from its rows until it is rolled up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.columns import UNREADABLE, read_columns
from kshunt.backend.delivered_files.result_files import files_of, hour_folders, read_manifest
from kshunt.backend.domain.pipeline.result_columns import Manifest, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import (
    BOTTLENECKS,
    FORECASTS,
    OF_A_WEEK,
    RollUp,
)
from kshunt.backend.domain.pipeline.sample_columns import hour_folder
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.pipeline.reports.report_files import read_again
from kshunt.backend.pipeline.results.hour_figures import HourFigures
from kshunt.backend.pipeline.results.hour_forecasts import HourForecasts
from kshunt.backend.pipeline.results.hour_rows import forecasts_by_hour, hours_of
from kshunt.backend.pipeline.results.roll_ups import origin_of_hour


@dataclass(frozen=True, slots=True)
class RolledWeek:
    """Hours by when they begin."""

    rates: Mapping[int, HourFigures]
    forecasts: Mapping[int, HourForecasts]
    problems: Sequence[str]
    """Files that cannot be read, in words: of their hours the rows are read, if any are left."""

    @classmethod
    def read(cls, week: Week, results: Path) -> RolledWeek:
        """The hours of a week whose roll-ups count.

        Raises:
            UnreadableResults: the manifest cannot be read, or files vanish faster than they are
                read.
        """

        def read() -> RolledWeek:
            manifest = read_manifest(results)
            problems: list[str] = []
            rates = _tables(OF_A_WEEK, week, results, manifest, problems)
            forecasts = _tables((FORECASTS, BOTTLENECKS), week, results, manifest, problems)
            return cls(hours_of(rates), forecasts_by_hour(forecasts), problems)

        return read_again(results, read)


def _tables(
    roll_ups: Sequence[RollUp], week: Week, results: Path, manifest: Manifest, problems: list[str]
) -> dict[str, Any]:
    """Rows of hours that count in each of these tables."""
    found = {
        one.by_hour.name: _rows(one.by_hour, week, results, manifest, problems) for one in roll_ups
    }
    source = roll_ups[0].source
    there = {hour.name for hour in hour_folders(results / source.name)}

    def counts(start_ms: int, of: str) -> bool:
        name = hour_folder(start_ms)
        return week.has(start_ms) and (
            name not in there or of == origin_of_hour(source, name, manifest)
        )

    hours = [_counting(rows, counts) for rows in found.values()]
    whole = pa.array(sorted(set.intersection(*hours)), pa.int64())
    return {
        name: rows.filter(pc.is_in(millis_column(rows["start"]), value_set=whole))
        for name, rows in found.items()
    }


def _counting(rows: Any, counts: Callable[[int, str], bool]) -> set[int]:
    pairs = rows.select(["start", "made_of"]).group_by(["start", "made_of"]).aggregate([])
    starts = millis_column(pairs["start"]).to_pylist()
    both = zip(starts, pairs["made_of"].to_pylist(), strict=True)
    return {start_ms for start_ms, of in both if counts(start_ms, of)}


def _rows(
    table: ResultTable, week: Week, results: Path, manifest: Manifest, problems: list[str]
) -> Any:
    """A table's rows of the week."""
    parts = []
    for day in hour_folders(results / table.name):
        if week.has(day.start_ms):
            for file in files_of(day, table.name, manifest):
                try:
                    parts.append(read_columns(file.path, table, table.names))
                except FileNotFoundError:
                    raise
                except UNREADABLE as error:
                    problems.append(f"{file.path} cannot be read ({str(error).splitlines()[0]}).")
    if not parts:
        columns = {name: pa.array([], pa.string()) for name in table.names}
        columns["start"] = pa.array([], pa.timestamp("ms", "UTC"))
        return pa.table(columns)
    return pa.concat_tables(parts)
