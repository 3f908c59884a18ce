"""Results of a data pipeline as files, without a pipeline: rows in a table's columns, by hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.delivered_files.result_files import current_files
from kshunt.backend.domain.pipeline.result_columns import MANIFEST, Manifest, ResultTable, RunRecord
from kshunt.backend.domain.pipeline.sample_columns import Type, hour_folder
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of

Row = dict[str, Any]

_NOTHING: Mapping[Type, Any] = {
    Type.STRING: "",
    Type.INT: 0,
    Type.LONG: 0,
    Type.DOUBLE: 0.0,
    Type.BOOL: False,
}


def by_every_value(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order that each of their values is part of."""
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def time_of(at_ms: int) -> datetime:
    """A moment as a time column has it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def arrow(table: ResultTable, rows: Sequence[Row]) -> pa.Table:
    """The rows in the table's columns; times are given in milliseconds; what lacks is null, or
    nothing where a column may not be null."""
    columns = {}
    for column, field in zip(table.columns, arrow_of(table.columns), strict=True):
        values = [row.get(column.name) for row in rows]
        if column.type is Type.TIME:
            first = [row[table.hour_of] for row in rows]
            values = [
                time_of(f if v is None else v) if v is not None or not column.nullable else None
                for v, f in zip(values, first, strict=True)
            ]
        elif not column.nullable:
            values = [_NOTHING[column.type] if value is None else value for value in values]
        columns[column.name] = pa.array(values, field.type)
    return pa.table(columns)


def write(
    results: Path, table: ResultTable, rows: Iterable[Row], part: str = "batch_id=1"
) -> list[Path]:
    """One file an hour, of a batch or a run; their paths."""
    by_hour: dict[str, list[Row]] = {}
    for row in rows:
        by_hour.setdefault(hour_folder(row[table.hour_of]), []).append(row)
    paths = []
    for hour, some in by_hour.items():
        path = results / table.name / hour / part / "part-00000-x.zstd.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(table, some), path, compression="zstd")
        paths.append(path)
    return paths


def publish(results: Path, run: str, table: ResultTable, hours_ms: Iterable[int]) -> None:
    """Let a run hold for some hours of a table."""
    path = results / MANIFEST
    former = Manifest.from_json(path.read_text()) if path.exists() else Manifest()
    record = RunRecord(run, 0, "0", 1, 1, None, 0, 0)
    manifest = former.with_run(record, [table.name], [hour_folder(at) for at in hours_ms])
    path.write_text(manifest.to_json())


def rows_in(folder: Path, table: str, *order: str) -> list[dict[str, Any]]:
    """A table as any reader of Parquet finds it through the manifest."""
    parts = [pq.ParquetFile(path).read() for path in current_files(folder, table)]
    rows: list[dict[str, Any]] = pa.concat_tables(parts, promote_options="default").to_pylist()
    return sorted(rows, key=lambda row: [str(row[name]) for name in order])
