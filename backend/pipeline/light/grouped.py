"""Rows of a table by keys, with arrays: what SQL calls a group, and what it makes of one.

Numbers that are not known are NaN. Of a group in which none is known, the sum is not known either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kshunt.backend.pipeline.kernels.nan_arithmetic import Floats
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints


def numbers(column: Any) -> Floats:
    """An Arrow column of numbers."""
    found: Floats = column.cast(pa.float64()).to_numpy().astype(np.float64)
    return found


def flags(column: Any) -> Bools:
    """An Arrow column of booleans; what is not known is False."""
    found: Bools = ints(column) == 1
    return found


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows with the same keys, the groups by their keys. Each result has a value a group."""

    order: Ints
    """All rows, group by group; within one as they were."""
    starts: Ints
    """Where in it each group begins."""
    of: Ints
    """Of each row: its group."""

    @classmethod
    def by(cls, *keys: Ints) -> Groups:
        """Group by these keys, the first of them foremost."""
        order = np.lexsort(keys[::-1])
        begins = np.zeros(len(order), np.bool_)
        begins[:1] = True
        for key in keys:
            begins[1:] |= key[order][1:] != key[order][:-1]
        of = np.empty(len(order), np.int64)
        of[order] = np.cumsum(begins) - 1
        return cls(order, np.flatnonzero(begins), of)

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, values: Ints) -> Ints:
        """Of each group: the value of its first row, such as a key."""
        found: Ints = values[self.order][self.starts]
        return found

    def whole_sum(self, values: Ints) -> Ints:
        """The sum of whole numbers, of which all are known."""
        found: Ints = self._reduced(np.add, values)
        return found

    def count(self, which: Bools) -> Ints:
        """How many of its rows are so."""
        return self.whole_sum(which.astype(np.int64))

    def any(self, which: Bools) -> Bools:
        """Whether any is."""
        return self.count(which) > 0

    def sum(self, values: Floats) -> Floats:
        """The sum of what is known."""
        known = ~np.isnan(values)
        sums = self._reduced(np.add, np.where(known, values, 0.0))
        return np.where(self.any(known), sums, np.nan)

    def mean(self, values: Floats) -> Floats:
        """The mean of what is known."""
        counts = self.count(~np.isnan(values))
        return self.sum(values) / np.maximum(counts, 1)

    def least(self, values: Floats) -> Floats:
        """The least of what is known."""
        found: Floats = self._reduced(np.fmin, values)
        return found

    def most(self, values: Floats) -> Floats:
        """The greatest of what is known."""
        found: Floats = self._reduced(np.fmax, values)
        return found

    def bits(self, values: Ints) -> Ints:
        """Bits that are set in any."""
        found: Ints = self._reduced(np.bitwise_or, values)
        return found

    def last_row(self, at: Floats, which: Bools) -> Ints:
        """Of the rows that are so, the number of the one with the greatest `at`; -1: none is."""
        place = np.where(which, at, -np.inf)
        latest = which & (place == self._reduced(np.fmax, place)[self.of])
        rows: Ints = self._reduced(np.maximum, np.where(latest, np.arange(len(at)), -1))
        return rows

    def percentile(self, values: Floats, share: float) -> Floats:
        """Between the two nearest of what is known, as Spark's `percentile` has it."""
        counts = self.count(~np.isnan(values))
        # What is not known is sorted to the end of its group.
        ordered = values[np.lexsort((values, self.of))]
        place = np.maximum(counts - 1, 0) * share
        low, high = np.floor(place), np.ceil(place)
        last = len(values) - 1
        below, above = (
            ordered[np.minimum(self.starts + near.astype(np.int64), last)] for near in (low, high)
        )
        between = (high - place) * below + (place - low) * above
        return np.where(counts == 0, np.nan, np.where(below == above, below, between))

    def _reduced(self, how: np.ufunc, values: Any) -> Any:
        if not len(self.starts):
            return values[:0]
        return how.reduceat(values[self.order], self.starts)


def places_of(wanted: tuple[Ints, ...], keys: tuple[Ints, ...]) -> Ints:
    """Where each wanted row of keys stands among `keys`, which are unique; -1: it is not there."""
    known = {key: n for n, key in enumerate(zip(*(one.tolist() for one in keys), strict=True))}
    found = (known.get(key, -1) for key in zip(*(one.tolist() for one in wanted), strict=True))
    return np.fromiter(found, np.int64, len(wanted[0]))


def at_places(values: Floats, places: Ints) -> Floats:
    """The values at some places; NaN for -1."""
    found = np.full(len(places), np.nan)
    there = places >= 0
    found[there] = values[places[there]]
    return found


def known_only(values: Floats) -> Any:
    """Numbers as Arrow has them: null where they are not known."""
    return pa.array(values, pa.float64(), from_pandas=True)


def moments(at_ms: Any) -> Any:
    """Milliseconds since the epoch as times; `NULL` is null."""
    whole = np.asarray(at_ms, np.int64)
    unknown = whole == NULL
    return pa.array(np.where(unknown, 0, whole) * 1000, mask=unknown).cast(
        pa.timestamp("us", "UTC")
    )
