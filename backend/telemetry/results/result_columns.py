"""Columns of results to rows of `kshunt.backend.domain.pipeline.delivered`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.arrow_rows import millis_column

T = TypeVar("T")

_TIME: Final = "_ms"


def rows_of(table: Any, kind: Callable[..., T]) -> tuple[T, ...]:
    """A row of `kind` for each; its fields are columns, and what is missing has its default."""
    there = [(name, column) for name, column in _fields(kind) if column in table.column_names]
    values = [_values(table[column]) for _, column in there]
    names = [name for name, _ in there]
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True))


@lru_cache(32)
def _fields(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.name.removesuffix(_TIME)) for field in fields(kind))


def _values(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = millis_column(column)
    values: list[Any] = column.to_pylist()
    return values


def moment(at_ms: int) -> Any:
    """A time to compare columns with."""
    return pa.scalar(at_ms, pa.timestamp("ms", "UTC"))


def last_of(table: Any, keys: Sequence[str], by: str) -> Any:
    """Of rows that have the same keys the one that is the greatest by a column."""
    if not len(table):
        return table
    order = pc.sort_indices(table, sort_keys=[(key, "ascending") for key in (*keys, by)])
    table = table.take(order).combine_chunks()
    same = np.ones(len(table) - 1, np.bool_)
    for key in keys:
        column = table[key].combine_chunks()
        equal = pc.equal(column[:-1], column[1:]).fill_null(False)
        both = pc.and_(column[:-1].is_null(), column[1:].is_null())
        same &= pc.or_(equal, both).to_numpy(zero_copy_only=False)
    return table.filter(pa.array(np.append(~same, True)))
