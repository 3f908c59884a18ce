"""Columns of files of results, in the types of their table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.domain.pipeline.result_columns import ResultTable
from kshunt.backend.domain.pipeline.sample_columns import SampleColumn, Type

Mask = Callable[[Any], Any]
"""Which rows of a table are wanted."""
UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)
"""What `read_columns` raises of a file that is torn, or none of the table's."""

_TYPES: Final[dict[Type, Any]] = {
    Type.TIME: pa.timestamp("ms", "UTC"),
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
}


def read_columns(
    path: Path, table: ResultTable, names: Sequence[str], wanted: Mask | None = None
) -> Any:
    """Some columns of a file, in the table's types; those of later versions are null.

    `wanted` tells which rows of such columns are kept.

    Raises:
        OSError, ValueError, KeyError, TypeError: it is torn, or none of this table's.
    """
    known = {column.name: column for column in table.columns}
    columns = [known[name] for name in names]
    with pq.ParquetFile(path) as file:
        here = set(file.schema_arrow.names)
        missing = [c.name for c in columns if not c.nullable and c.name not in here]
        if missing:
            raise ValueError(f"it has no column {missing[0]}: it is not a file of {table.name}")
        read = [c.name for c in columns if c.name in here]
        # A group of rows at a time: what is kept of a large file is little.
        groups = [
            _typed(file.read_row_group(number, read, use_threads=False), columns, wanted)
            for number in range(file.num_row_groups)
        ]
        return pa.concat_tables(groups) if groups else _typed(file.read(read), columns, None)


def read_files(
    paths: Iterable[Path], table: ResultTable, names: Sequence[str], wanted: Mask | None = None
) -> Any:
    """Some columns of files, together, as `read_columns` has them; None of no file."""
    parts = [read_columns(path, table, names, wanted) for path in paths]
    return pa.concat_tables(parts) if parts else None


def _typed(rows: Any, columns: Sequence[SampleColumn], wanted: Mask | None) -> Any:
    found = pa.table({column.name: _column(rows, column) for column in columns})
    return found if wanted is None else found.filter(wanted(found))


def _column(found: Any, column: SampleColumn) -> Any:
    wanted = _TYPES[column.type]
    if column.name not in found.column_names:
        return pa.nulls(len(found), wanted)
    # Microseconds are cut off; nothing else may be lost.
    return found[column.name].cast(wanted, safe=column.type is not Type.TIME)


def millis(column: Any) -> NDArray[np.int64]:
    """A time column without nulls, in milliseconds since the epoch. Shape (rows,)."""
    found: NDArray[np.int64] = millis_column(column).to_numpy()
    return found
