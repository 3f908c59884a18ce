"""What the results and the recording hold of one operation, read with pyarrow alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.delivered_files.result_files import (
    UnreadableResults,
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
    Manifest,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import CLUSTER_KEY, HOUR_MS, hour_start_ms
from kshunt.backend.domain.text.formatting import many, moment_text
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.pipeline.reports.operation_history import COLUMNS
from kshunt.backend.telemetry.recording.layout import SampleTable, counted

_LOOKS: Final = 5
"""So often files are listed anew where one is gone before it is read."""
_MOST: Final = 10
_UTC: Final = pa.timestamp("ms", tz="UTC")


class NoOperation(BadInput):
    """Nothing is known of that operation."""

    title = "No such operation"


class NoResults(KshuntError):
    """There are no results, or none of that operation: they have to be made first."""

    title = "No results"


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """From what a table's rows were taken."""

    table: str
    rows: int
    newest_ms: float | None
    by: str
    """`a backfill of …`, `the streaming job`, or both."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A time without samples, or perhaps without some."""

    from_ms: float
    to_ms: float
    text: str


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
    for _ in range(_LOOKS):
        try:
            return _read(operation, samples, results, since_ms)
        except FileNotFoundError:
            continue
    raise UnreadableResults(
        f"Files of {results} are removed faster than they can be read.",
        advice="Try again when no backfill runs.",
    )


def _read(operation: str, samples: Path, results: Path, since_ms: int) -> Material:
    files = [path for path in current_files(results, RATES.name) if _hour_of(path) >= since_ms]
    found = _OperationHours.of(files, operation)
    if found is None:
        raise _missing(operation, samples, results, since_ms, files)
    first, last = found.first_ms, found.last_ms + GAP_S * 1000
    rates = _rates(files, operation, found)
    tables = {
        table.name: rows
        for table in (STALLS, THROTTLE_EFFECT, ETA, BROKER_LOAD, QUALITY, QUARANTINE_FILES)
        if (rows := _table(results, table, first, last)) is not None
    }
    manifest = read_manifest(results)
    return Material(
        operation=operation,
        cluster=_cluster(samples),
        rates=rates,
        tables=tables,
        missed=[gap for gap in _gaps(samples) if gap.to_ms >= first and gap.from_ms <= last],
        made=[_made(manifest, results, RATES.name, rates)]
        + [_made(manifest, results, name, rows) for name, rows in tables.items()],
        results_newest_ms=_newest(files[-1:]),
        samples_newest_ms=_samples_newest(samples),
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
            rows = _columns(path, ["at", "rid", "operation_id"], operation)
            parts.append(rows.filter(pc.equal(rows["operation_id"], operation)))
        rows = pa.concat_tables(parts) if parts else None
        if rows is None or not len(rows):
            return None
        times = pc.min_max(rows["at"].cast(_UTC, safe=False).cast(pa.int64())).as_py()
        return cls(times["min"], times["max"], pc.unique(rows["rid"]))


def _rates(files: Sequence[Path], operation: str, found: _OperationHours) -> Any:
    """Also of the time just after it: an operation ends before its last samples are taken."""
    first, last = found.first_ms, found.last_ms + GAP_S * 1000
    parts = []
    for path in files:
        if first - HOUR_MS < _hour_of(path) <= last:
            rows = _columns(path, [*COLUMNS, "operation_id"])
            at = rows["at"].cast(_UTC, safe=False).cast(pa.int64())
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
    recorded = {hour: paths for hour, paths in _recorded(samples).items() if hour >= since_ms}
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
        pc.any(pc.equal(_columns(path, ["operation_id"], operation)[0], operation)).as_py()
        for path in paths
    )


def _operations(files: Sequence[Path]) -> list[str]:
    """The ids of the last operations, the newest last."""
    found: dict[str, None] = {}
    for path in reversed(files):
        ids = pc.unique(_columns(path, ["operation_id"])["operation_id"]).to_pylist()
        found |= dict.fromkeys(id for id in reversed(ids) if id is not None)
        if len(found) >= _MOST:
            break
    return list(found)[:_MOST][::-1]


# Files


def _columns(path: Path, names: Sequence[str], operation: str | None = None) -> Any:
    """Columns of a file by name; what it lacks is null.

    Given an operation, parts of the file that cannot have it are passed over.

    Raises:
        UnreadableResults: it is no Parquet file.
        FileNotFoundError: it is gone.
    """
    try:
        with pq.ParquetFile(path) as file:
            there = [name for name in names if name in file.schema_arrow.names]
            if operation is None:
                rows = file.read(columns=there)
            else:
                rows = file.read_row_groups(_groups(file.metadata, operation), there)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise UnreadableResults(
            f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}).",
            advice="Make its hour again: kshunt pipeline backfill.",
        ) from None
    nothing = pa.nulls(len(rows))
    return pa.table({name: rows[name] if name in there else nothing for name in names})


def _groups(metadata: Any, operation: str) -> list[int]:
    """The row groups that may have an operation, by what the file's footer says of them."""
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(i) for i in range(group.num_columns))
        whose = next((c for c in columns if c.path_in_schema == "operation_id"), None)
        said = None if whose is None else whose.statistics
        if said is None or not said.has_min_max:
            nothing = whose is None or (said is not None and said.null_count == group.num_rows)
            found += [] if nothing else [number]
        elif said.min <= operation <= said.max:
            found.append(number)
    return found


def _table(results: Path, table: ResultTable, first_ms: float, last_ms: float) -> Any:
    """A table's rows of about that time; None where it was never made."""
    files = current_files(results, table.name)
    if not files:
        return None
    if table is QUALITY:
        # A backfill's rows lie under the first hour of its period, however long that is.
        near = [p for p in files if _of_run(p) or first_ms - HOUR_MS < _hour_of(p) <= last_ms]
    else:
        near = [p for p in files if first_ms - HOUR_MS < _hour_of(p) <= last_ms + HOUR_MS]
    parts = [_columns(path, table.names) for path in near]
    # A column that is null in one part has its type in another.
    return pa.concat_tables(parts, promote_options="permissive") if parts else _empty(table)


def _of_run(path: Path) -> bool:
    return path.parent.name.startswith("run=")


def _empty(table: ResultTable) -> Any:
    return pa.table({name: pa.nulls(0) for name in table.names})


def _hour_of(path: Path) -> int:
    """When the hour of a file of results begins."""
    return hour_start_ms(f"{path.parents[2].name}/{path.parents[1].name}")


def _newest(files: Sequence[Path]) -> float | None:
    return max(filter(None, map(_newest_of, files)), default=None)


def _newest_of(path: Path) -> float | None:
    newest = pc.max(_columns(path, ["at"])["at"].cast(_UTC, safe=False).cast(pa.int64())).as_py()
    return None if newest is None else float(newest)


def _made(manifest: Manifest, results: Path, table: str, rows: Any) -> TableOrigin:
    """By whom the hours of a table were made."""
    by: dict[str, None] = {}
    for run in dict.fromkeys(manifest.hours.get(table, {}).values()):
        record = manifest.runs.get(run)
        if record is not None and record.streamed:
            by["the streaming job"] = None
        elif record is not None:
            by[f"the backfill of {moment_text(record.made_ms)} by kshunt {record.made_by}"] = None
    if any(path.parent.name.startswith("batch_id=") for path in current_files(results, table)):
        by["the streaming job"] = None
    newest = None
    if "at" in rows.column_names and len(rows):
        newest = pc.max(rows["at"].cast(_UTC, safe=False).cast(pa.int64())).as_py()
    return TableOrigin(table, len(rows), newest, ", ".join(by))


# The recording


def _recorded(samples: Path) -> Mapping[int, tuple[Path, ...]]:
    try:
        return counted(samples, SampleTable.REPLICAS)
    except OSError:
        return {}


def _samples_newest(samples: Path) -> float | None:
    recorded = _recorded(samples)
    return _newest(recorded[max(recorded)][-1:]) if recorded else None


def _cluster(samples: Path) -> str:
    for paths in reversed(list(_recorded(samples).values())):
        metadata = pq.read_metadata(paths[-1]).metadata or {}
        if CLUSTER_KEY.encode() in metadata:
            return str(metadata[CLUSTER_KEY.encode()].decode(errors="replace"))
    return "?"


def _gaps(samples: Path) -> Iterator[Missed]:
    """What the recorder has noted; a line that a crash cut off is passed over."""
    try:
        lines = (samples / "gaps.jsonl").read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            gap = json.loads(line)
            yield Missed(float(gap["from_ms"]), float(gap["to_ms"]), str(gap["text"]))
        except (KeyError, TypeError, ValueError):
            continue


def _iso(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
