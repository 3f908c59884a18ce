"""The order of the partitions view, kept from one snapshot to the next.

Goals
    A second in which little changed costs little, whatever the size of the cluster. The rows are in
    exactly the order that sorting all of them gives.
Constraints
    The columns that decide an order are those of its `RANKINGS`. Where an order has none, where the
    rows are other replicas, or where much changed, everything is sorted.
Algorithm
    Rows whose deciding columns changed, and rows that came, are taken out; the rest is still in
    order. One row in `STRETCH_ROWS` of the rest is a post. The posts and what was taken out, sorted
    together, tell between which two posts each row belongs; only these stretches are sorted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import take
from kshunt.tui.facts.replica_groups import OF_GROUPS
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import Order
from kshunt.tui.views.partitions.table import RANKINGS, sorted_rows

STRETCH_ROWS: Final = 128
FRESH_MOST: Final = 0.1
"""Where a larger share of the rows has changed, all of them are sorted."""
AGAIN_MOST: Final = 0.3
"""So too where these belong into so large a share of the others."""

_REPLICA: Final = ("topic_index", "partition", "position", "broker")
"""Where these columns are the same, a row is the same replica."""


@dataclass(frozen=True, eq=False, slots=True)
class _FormerOrder:
    """An order, and what it was found from."""

    order: Order
    topics: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]]
    """Those that tell which replica a row is, and those that decide."""
    members: NDArray[np.bool_] | None
    """The rows that are shown; None for all of them."""
    rows: NDArray[np.intp]
    """They, sorted."""


class IncrementalOrder:
    """Sorts the rows of one view. For one thread."""

    def __init__(self) -> None:
        self._former: _FormerOrder | None = None

    def forget(self) -> None:
        """Hold on to nothing."""
        self._former = None

    def sorted(
        self, facts: Facts, shown: NDArray[np.intp] | None, order: Order
    ) -> NDArray[np.intp]:
        """The rows that are `shown`, or all of them, as `sorted_rows` sorts them.

        The same array as before where nothing has moved.
        """
        names = _deciding(order)
        if names is None:
            self.forget()
            return sorted_rows(facts, _rows(facts, shown), order)
        columns = {name: getattr(facts.rows, name) for name in (*_REPLICA, *names)}
        members = None
        if shown is not None:
            members = np.zeros(len(facts.rows), np.bool_)
            members[shown] = True
        found = self._mended(facts, members, columns, order)
        if found is None:
            found = sorted_rows(facts, _rows(facts, shown), order)
        self._former = _FormerOrder(order, facts.snapshot.topics, columns, members, found)
        return found

    def _mended(
        self,
        facts: Facts,
        members: NDArray[np.bool_] | None,
        columns: Mapping[str, NDArray[Any]],
        order: Order,
    ) -> NDArray[np.intp] | None:
        """The kept order with changed rows put in their places; None if that is not worth it."""
        former = self._former
        if former is None or former.order != order or former.topics is not facts.snapshot.topics:
            return None
        if any(former.columns[name] is not columns[name] for name in _REPLICA):
            return None
        stays = np.ones(len(facts.rows), np.bool_)
        for side in (former.members, members):
            if side is not None:
                stays &= side
        for name, column in columns.items():
            if former.columns[name] is not column:
                stays &= _same(former.columns[name], column)
        fresh = np.flatnonzero(~stays if members is None else members & ~stays)
        if len(fresh) > FRESH_MOST * len(stays):
            return None
        if not len(fresh) and np.count_nonzero(stays) == len(former.rows):
            return former.rows
        return _put(facts, former.rows[stays[former.rows]], fresh, order)


def _rows(facts: Facts, shown: NDArray[np.intp] | None) -> NDArray[np.intp]:
    return np.arange(len(facts.rows)) if shown is None else shown


def _deciding(order: Order) -> tuple[str, ...] | None:
    """The columns that decide an order; None where that is not known."""
    keys = [level.key for level in order.levels if level.key not in OF_GROUPS]
    if not all(key in RANKINGS for key in keys):
        return None
    return tuple({name: None for key in keys for name in RANKINGS[key].decided_by})


def _same(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a column is what it was, NaN too."""
    bits = f"u{before.dtype.itemsize}"
    same: NDArray[np.bool_] = before.view(bits) == after.view(bits)
    return same


def _put(
    facts: Facts, rows: NDArray[np.intp], fresh: NDArray[np.intp], order: Order
) -> NDArray[np.intp] | None:
    """Rows that are in order, with others put in where they belong; None if these are too many."""
    if not len(rows) or not len(fresh):
        return rows if len(rows) else _few_sorted(facts, fresh, order)
    posts = rows[::STRETCH_ROWS]
    ordered, behind = _behind(facts, posts, fresh, order)
    touched, counts = np.unique(behind, return_counts=True)
    if len(touched) * STRETCH_ROWS > AGAIN_MOST * len(rows):
        return None
    # The first stretch is before the first post, and has no row.
    starts = np.maximum((touched - 1) * STRETCH_ROWS, 0)
    ends = np.minimum(touched * STRETCH_ROWS, len(rows))
    stretches = [rows[start:end] for start, end in zip(starts, ends, strict=True)]
    again = _few_sorted(facts, np.concatenate([*stretches, ordered]), order)
    parts, done, at = [], 0, 0
    for start, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
        size = end - start + count
        parts += [rows[done:start], again[at : at + size]]
        done, at = end, at + size
    return np.concatenate([*parts, rows[done:]])


def _behind(
    facts: Facts, posts: NDArray[np.intp], fresh: NDArray[np.intp], order: Order
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The fresh rows in order, and of each how many posts stand before it."""
    both = _few_sorted(facts, np.concatenate([posts, fresh]), order)
    among = np.zeros(len(facts.rows), np.bool_)
    among[posts] = True
    is_post = among[both]
    return both[~is_post], np.cumsum(is_post, dtype=np.intp)[~is_post]


def _few_sorted(facts: Facts, rows: NDArray[np.intp], order: Order) -> NDArray[np.intp]:
    """Some of the rows, sorted, without a look at the others."""
    rows = np.sort(rows)
    few = Facts(replace(facts.snapshot, replicas=take(facts.rows, rows)))
    return rows[sorted_rows(few, np.arange(len(rows)), order)]
