"""Rows of Parquet files as Arrow tables, for whatever puts many files together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa


def with_columns(rows: Any, schema: Any) -> Any:
    """The rows with the columns of a schema, in its order; null where they have none."""
    if rows.schema.names == schema.names and rows.schema.types == schema.types:
        return pa.Table.from_arrays(rows.columns, schema=schema)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def millis_column(column: Any) -> Any:
    """A time column as one of milliseconds since the epoch."""
    return column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())


def sorted_groups(tables: Iterable[Any], keys: Sequence[str], rows_min: int) -> Iterator[Any]:
    """The rows of tables in sorted groups, of which one is held at a time.

    A group, except the last one, has `rows_min` rows, and those of its last table in addition.
    """
    order = [(key, "ascending") for key in keys]
    held: list[Any] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += len(table)
        if rows >= rows_min:
            yield pa.concat_tables(held).sort_by(order)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held).sort_by(order)
