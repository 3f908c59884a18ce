"""Rows of a table as Parquet (one row group): figures where a column has a unit, else the text.

Goals
    A file for tools that calculate: a size is a number of bytes, and not `1.50 GB`.
Constraints
    pyarrow is imported when a file is written: the dashboard starts without it.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from kshunt.tui.tables.model import Column, Table
from kshunt.tui.tables.row_texts import known_texts

if TYPE_CHECKING:
    import pyarrow as pa


def rows_parquet(table: Table) -> bytes:
    """Every row. Columns have the names that they have in CSV and JSON, and a unit as metadata.

    Null is unknown. A rate is infinite where no throttle is set, and a time where it never ends.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = range(len(table))
    texts = [known_texts(table, row) for row in rows]
    arrays = [
        pa.array([text[place] for text in texts], pa.string())
        if column.unit is None
        else pa.array(
            [_known(table.number(row, column.key), column) for row in rows], _type(column)
        )
        for place, column in enumerate(table.columns)
    ]
    out = io.BytesIO()
    pq.write_table(pa.table(arrays, pa.schema([_field(one) for one in table.columns])), out)
    return out.getvalue()


def _known(value: float | None, column: Column) -> float | None:
    """Null where it is not known: in whole numbers that is -1, in others NaN."""
    assert column.unit is not None
    if value is None or math.isnan(value):
        return None
    if not column.unit.whole:
        return float(value)
    return None if value < 0 else int(value)


def _type(column: Column) -> Any:
    import pyarrow as pa

    if column.unit is None:
        return pa.string()
    return pa.int64() if column.unit.whole else pa.float64()


def _field(column: Column) -> pa.Field:
    import pyarrow as pa

    unit = {} if column.unit is None else {"unit": column.unit.value}
    return pa.field(column.name, _type(column), metadata=unit)
