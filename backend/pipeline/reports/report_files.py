"""What reports read: files of results and of a recording, with pyarrow alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.result_files import UnreadableResults, current_files
from kshunt.backend.domain.pipeline.result_columns import QUALITY, Manifest, ResultTable
from kshunt.backend.domain.pipeline.sample_columns import CLUSTER_KEY, HOUR_MS, hour_start_ms
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.telemetry.recording.layout import SampleTable, counted

T = TypeVar("T")

_LOOKS: Final = 5
"""So often files are listed anew where one is gone before it is read."""


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


# Files


def read_again(results: Path, read: Callable[[], T]) -> T:
    """What `read` reads from results. It reads again if a job has replaced a file meanwhile.

    Raises:
        UnreadableResults: files vanish faster than they are read.
    """
    for _ in range(_LOOKS):
        try:
            return read()
        except FileNotFoundError:
            continue
    raise UnreadableResults(
        f"Files of {results} are removed faster than they can be read.",
        advice="Try again when no backfill runs.",
    )


def columns_of(path: Path, names: Sequence[str], operation: str | None = None) -> Any:
    """Columns of a file by name; what it lacks is null.

    Given an operation, it skips parts of the file that cannot have it.

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


def rows_near(results: Path, table: ResultTable, first_ms: float, last_ms: float) -> Any:
    """A table's rows of about that time; None where it was never made."""
    files = current_files(results, table.name)
    if not files:
        return None
    if table is QUALITY:
        # A backfill's rows lie under the first hour of its period, however long that is.
        near = [p for p in files if _of_run(p) or first_ms - HOUR_MS < hour_of(p) <= last_ms]
    else:
        near = [p for p in files if first_ms - HOUR_MS < hour_of(p) <= last_ms + HOUR_MS]
    parts = [columns_of(path, table.names) for path in near]
    # A column that is null in one part has its type in another.
    return pa.concat_tables(parts, promote_options="permissive") if parts else _empty(table)


def _of_run(path: Path) -> bool:
    return path.parent.name.startswith("run=")


def _empty(table: ResultTable) -> Any:
    return pa.table({name: pa.nulls(0) for name in table.names})


def hour_of(path: Path) -> int:
    """When the hour of a file of results begins."""
    return hour_start_ms(f"{path.parents[2].name}/{path.parents[1].name}")


def newest_in(files: Sequence[Path]) -> float | None:
    return max(filter(None, map(_newest_of, files)), default=None)


def _newest_of(path: Path) -> float | None:
    newest = pc.max(millis_column(columns_of(path, ["at"])["at"])).as_py()
    return None if newest is None else float(newest)


def origin_of(manifest: Manifest, results: Path, table: str, rows: Any) -> TableOrigin:
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
        newest = pc.max(millis_column(rows["at"])).as_py()
    return TableOrigin(table, len(rows), newest, ", ".join(by))


# The recording


def recorded_hours(samples: Path) -> Mapping[int, tuple[Path, ...]]:
    try:
        return counted(samples, SampleTable.REPLICAS)
    except OSError:
        return {}


def samples_newest(samples: Path) -> float | None:
    recorded = recorded_hours(samples)
    return newest_in(recorded[max(recorded)][-1:]) if recorded else None


def cluster_of(samples: Path) -> str:
    for paths in reversed(list(recorded_hours(samples).values())):
        metadata = pq.read_metadata(paths[-1]).metadata or {}
        if CLUSTER_KEY.encode() in metadata:
            return str(metadata[CLUSTER_KEY.encode()].decode(errors="replace"))
    return "?"


def gaps_of(samples: Path) -> Iterator[Missed]:
    """What the recorder has noted; it skips a line that a crash cut off."""
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
