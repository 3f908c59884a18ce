"""What the results and the recording hold of one operation, read with pyarrow alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.result_files import (
    current_files,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    GAP_S,
    QUALITY,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.pipeline.reports.operation_history import COLUMNS
from kshunt.backend.pipeline.reports.report_files import (
    Missed,
    TableOrigin,
    cluster_of,
    columns_of,
    gaps_of,
    hour_of,
    newest_in,
    origin_of,
    read_again,
    recorded_hours,
    rows_near,
    samples_newest,
)

_MOST: Final = 10


class NoOperation(BadInput):
    """Nothing is known of that operation."""

    title = "No such operation"


class NoResults(KshuntError):
    """There are no results, or none of that operation: they have to be made first."""

    title = "No results"


@dataclass(frozen=True, eq=False)
class Material:
    """All that a report is written from."""

    operation: str
    cluster: str
    """Its id; `?` where the recording does not say."""
    rates: Any
    """`pyarrow.Table`: the replicas of its partitions from its first sample to its last, and for
    `GAP_S` after it."""
    tables: Mapping[str, Any]
    """Of other tables the rows of its time, by name; a table that was never made is not there."""
    missed: Sequence[Missed]
    made: Sequence[TableOrigin]
    results_newest_ms: float | None
    """Of all rates, whatever operation they are of."""
    samples_newest_ms: float | None
    """None where the recording is gone."""


def read(operation: str, samples: Path, results: Path, since_ms: int = 0) -> Material:
    """All of an operation, of hours from `since_ms` on.

    Raises:
        NoResults: there is nothing of it in the results, and in the samples there is.
        NoOperation: neither knows it.
        UnreadableResults: a file cannot be read, or files vanish faster than they are read.
    """
    return read_again(results, partial(_read, operation, samples, results, since_ms))


def _read(operation: str, samples: Path, results: Path, since_ms: int) -> Material:
    files = [path for path in current_files(results, RATES.name) if hour_of(path) >= since_ms]
    found = _OperationHours.of(files, operation)
    if found is None:
        raise _missing(operation, samples, results, since_ms, files)
    first, last = found.first_ms, found.last_ms + GAP_S * 1000
    rates = _rates(files, operation, found)
    tables = {
        table.name: rows
        for table in (STALLS, THROTTLE_EFFECT, ETA, BROKER_LOAD, QUALITY, QUARANTINE_FILES)
        if (rows := rows_near(results, table, first, last)) is not None
    }
    manifest = read_manifest(results)
    return Material(
        operation=operation,
        cluster=cluster_of(samples),
        rates=rates,
        tables=tables,
        missed=[gap for gap in gaps_of(samples) if gap.to_ms >= first and gap.from_ms <= last],
        made=[origin_of(manifest, results, RATES.name, rates)]
        + [origin_of(manifest, results, name, rows) for name, rows in tables.items()],
        results_newest_ms=newest_in(files[-1:]),
        samples_newest_ms=samples_newest(samples),
    )


# The operation's own rows


@dataclass(frozen=True, eq=False)
class _OperationHours:
    """Where an operation is in the rates."""

    first_ms: float
    last_ms: float
    rids: Any
    """Of all replicas of its partitions."""

    @classmethod
    def of(cls, files: Sequence[Path], operation: str) -> _OperationHours | None:
        parts = []
        for path in files:
            rows = columns_of(path, ["at", "rid", "operation_id"], operation)
            parts.append(rows.filter(pc.equal(rows["operation_id"], operation)))
        rows = pa.concat_tables(parts) if parts else None
        if rows is None or not len(rows):
            return None
        times = pc.min_max(millis_column(rows["at"])).as_py()
        return cls(times["min"], times["max"], pc.unique(rows["rid"]))


def _rates(files: Sequence[Path], operation: str, found: _OperationHours) -> Any:
    """Also of the time just after it: an operation ends before its last samples are taken."""
    first, last = found.first_ms, found.last_ms + GAP_S * 1000
    parts = []
    for path in files:
        if first - HOUR_MS < hour_of(path) <= last:
            rows = columns_of(path, [*COLUMNS, "operation_id"])
            at = millis_column(rows["at"])
            whose = rows["operation_id"]
            ours = pc.or_kleene(pc.is_null(whose), pc.equal(whose, operation))
            during = pc.and_(pc.greater_equal(at, first), pc.less_equal(at, last))
            mine = pc.and_(pc.is_in(rows["rid"], value_set=found.rids), ours)
            parts.append(rows.filter(pc.and_(mine, during)))
    return pa.concat_tables(parts)


def _missing(
    operation: str, samples: Path, results: Path, since_ms: int, files: Sequence[Path]
) -> KshuntError:
    """Why there is nothing, and what to run."""
    recorded = {hour: paths for hour, paths in recorded_hours(samples).items() if hour >= since_ms}
    hours = [hour for hour, paths in recorded.items() if _mentions(paths, operation)]
    if hours:
        command = (
            f"kshunt pipeline backfill --samples {samples} --from {_iso(hours[0])} "
            f"--to {_iso(hours[-1] + HOUR_MS)}"
        )
        default = samples / "results"
        command += "" if results == default else f" --results {results}"
        return NoResults(
            f"Operation {operation} is in the samples of {many(len(hours), 'hour')} and not yet "
            "in the results.",
            advice=f"Make them: {command}",
        )
    known = _operations(files) or _operations([p for paths in recorded.values() for p in paths])
    advice = (
        f"The results have these operations, the newest last: {', '.join(known)}." if known else ""
    )
    if not recorded and not files:
        advice = "Record samples: kshunt serve --samples DIR; then kshunt pipeline backfill."
    return NoOperation(
        f"Neither {results} nor the samples of {samples} have operation {operation}.",
        advice=advice,
    )


def _mentions(paths: Iterable[Path], operation: str) -> bool:
    return any(
        pc.any(pc.equal(columns_of(path, ["operation_id"], operation)[0], operation)).as_py()
        for path in paths
    )


def _operations(files: Sequence[Path]) -> list[str]:
    """The ids of the last operations, the newest last."""
    found: dict[str, None] = {}
    for path in reversed(files):
        ids = pc.unique(columns_of(path, ["operation_id"])["operation_id"]).to_pylist()
        found |= dict.fromkeys(id for id in reversed(ids) if id is not None)
        if len(found) >= _MOST:
            break
    return list(found)[:_MOST][::-1]


def _iso(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
