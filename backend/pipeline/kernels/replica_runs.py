"""Rows of many replicas in one array: what came before, and sums, without leaving the replica.

A *run* is the consecutive rows of one replica. Unknown integers are `NULL`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NULL: Final = -(1 << 63)
"""Stands for an integer that is not known."""
_MOMENT: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class ReplicaRuns:
    """Where the rows of each replica are."""

    starts: Ints
    """Of each replica: its first row."""
    of: Ints
    """Of each row: the number of its replica."""
    first: Ints
    """Of each row: the first of its replica."""

    @classmethod
    def of_keys(cls, keys: Ints) -> ReplicaRuns:
        """Of rows that are sorted by `keys`."""
        begins = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=begins[1:])
        starts = np.flatnonzero(begins)
        of = np.cumsum(begins) - 1
        return cls(starts, of, starts[of])

    @property
    def ends(self) -> Ints:
        """Of each replica: its last row."""
        return np.append(self.starts[1:], len(self.of))[: len(self.starts)] - 1

    def last(self, known: Bools) -> Ints:
        """Of each row: the last known row of its replica up to it; -1 where there is none."""
        at = np.where(known, np.arange(len(known)), -1)
        np.maximum.accumulate(at, out=at)
        return np.where(at >= self.first, at, -1)

    def before(self, last: Ints) -> Ints:
        """Of each row: what `last` says of the row before it; -1 at the first."""
        shifted = np.empty_like(last)
        shifted[:1] = -1
        shifted[1:] = last[:-1]
        shifted[self.starts] = -1
        return shifted

    def sums(self, values: Ints) -> Ints:
        """The running sum within each replica. Exact, though it may wrap around in between."""
        total = np.cumsum(values)
        base = total[self.starts] - values[self.starts]
        return total - base[self.of]


def take(values: Ints, at: Ints) -> Ints:
    """The values at these rows; `NULL` where the row is -1."""
    if not len(values):
        return np.full(len(at), NULL)
    return np.where(at >= 0, values[at], NULL)


def known(*values: Ints) -> Bools:
    """Where all of them are."""
    found: Bools = values[0] != NULL
    for more in values[1:]:
        found &= more != NULL
    return found


def ints(column: Any) -> Ints:
    """An Arrow column of integers or booleans."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, NULL)
    values: Ints = column.to_numpy(zero_copy_only=False)
    return values


def millis(column: Any) -> Ints:
    """An Arrow column of times, in milliseconds since the epoch."""
    if column.type != _MOMENT:
        column = column.cast(_MOMENT)
    micros = ints(column)
    return np.where(micros == NULL, NULL, micros // 1000)


def longs(values: Ints, type: Any = None) -> Any:
    """An Arrow array of integers, null where they are unknown."""
    return pa.array(values, type or pa.int64(), mask=values == NULL)
