"""Rates of replicas at rest: one row while nothing changes, in the place of a row a minute.

Goals: most replicas of a cluster are neither copied nor behind, and theirs are most of the rows.
What is asked of `rates` later gives the same answer without them: sums, changes, and who was where.

Constraints: an hour is worked by itself, given what was there before it. Rows come in any order.

Algorithm: a row *rests* if its replica is in the ISR, and leads the partition or lags by at most
what is written in `LAG_S`. Also neither a move, nor a throttle, nor a diagnosed cause has to do
with it. Resting rows of one segment that follow each other are a *run*. Of a run the first row is
kept, since something changed there, and the last one. What was gained in between is added to the
last one, so a row always stands for the time since the row before it. A run that began in an
earlier hour has its first row there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints, millis

SUMMED: Final = ("elapsed_s", "advanced_messages", "advanced_bytes")
"""What a row says of the time since the one before it."""
_NONE_OF: Final = (
    "operation_id",
    "leader_throttle_bytes_per_s",
    "follower_throttle_bytes_per_s",
)
_WRITTEN: Final = "produced_5m_messages_per_s"
NEEDED: Final = (
    *("rid", "at", "segment_start", "leader", "broker", "in_isr", "adding", "removing", "cause"),
    *("lag_messages", _WRITTEN, *_NONE_OF, *SUMMED),
)
"""The columns of `rates` that are read."""
LAG_S: Final = 10.0
"""A replica in the ISR that lacks no more than is written in this time does not lag."""


@dataclass(frozen=True, eq=False)
class Before:
    """The last row of each replica before an hour, if that rested; by replica."""

    rid: Ints
    segment_ms: Ints

    @classmethod
    def of(cls, rows: Any) -> Before:
        """Out of the rates of the hour before, in any order."""
        rid, at, segment = _keys(rows)
        order = np.lexsort((at, rid))
        last = order[_differs(rid[order], after=True)]
        last = last[rests(rows)[last]]
        return cls(rid[last], segment[last])

    @classmethod
    def nothing(cls) -> Before:
        """Where the hour before is not known: each run then has its first row."""
        none = np.empty(0, np.int64)
        return cls(none, none)

    def goes_on(self, rid: Ints, segment_ms: Ints) -> Bools:
        """Whether each of these rows follows one that rested, in its segment."""
        if not len(self.rid):
            return np.zeros(len(rid), np.bool_)
        place = np.minimum(np.searchsorted(self.rid, rid), len(self.rid) - 1)
        found: Bools = (self.rid[place] == rid) & (self.segment_ms[place] == segment_ms)
        return found


@dataclass(frozen=True, eq=False)
class Thinned:
    """Which rows are kept, and what they say of the time before them; shape (rows,)."""

    kept: Bools
    sums: dict[str, Any]
    """Of each of `SUMMED` the new column; only of kept rows it means something."""

    def of_slice(self, rows: Any, start: int) -> Any:
        """The rows that are kept of a part of all, whose first has this number."""
        part = slice(start, start + len(rows))
        kept = pa.array(self.kept[part])
        for name, values in self.sums.items():
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, values[part].cast(field.type))
        return rows.filter(kept)


def rests(rows: Any) -> Bools:
    """Which rows rest."""
    leader, broker = ints(rows["leader"]), ints(rows["broker"])
    found: Bools = (ints(rows["in_isr"]) == 1) & (leader != NULL) & (leader >= 0)
    for name in ("adding", "removing"):
        found &= ints(rows[name]) == 0
    for name in _NONE_OF:
        found &= _is_null(rows[name])
    cause = pc.fill_null(pc.utf8_lower(rows["cause"]), "none")
    found &= np.asarray(pc.equal(cause, "none"), np.bool_)
    lag = ints(rows["lag_messages"])
    written = np.asarray(rows[_WRITTEN].cast(pa.float64()).fill_null(0.0), np.float64)
    found &= (leader == broker) | ((lag >= 0) & (lag <= written * LAG_S))
    return found


def thinned(rows: Any, before: Before) -> Thinned:
    """Thin the rates of one hour, in any order; of each replica all of its rows."""
    rid, at, segment = _keys(rows)
    order = np.lexsort((at, rid))
    rid, segment, rest = rid[order], segment[order], rests(rows)[order]
    first = _differs(rid)
    follows = np.zeros(len(rid), np.bool_)
    follows[1:] = ~first[1:] & rest[:-1] & (segment[1:] == segment[:-1])
    follows[first] = before.goes_on(rid[first], segment[first])
    follows &= rest
    ends = np.ones(len(rid), np.bool_)
    ends[:-1] = ~follows[1:] | first[1:]
    kept = ~follows | ends
    group: Ints = np.cumsum(kept) - kept
    sums = {name: _summed(rows[name], order, group) for name in SUMMED}
    in_order = np.empty(len(order), np.bool_)
    in_order[order] = kept
    return Thinned(in_order, sums)


def _keys(rows: Any) -> tuple[Ints, Ints, Ints]:
    return ints(rows["rid"]), millis(rows["at"]), millis(rows["segment_start"])


def _differs(keys: Ints, *, after: bool = False) -> Bools:
    """Whether each key differs from the one before it, or after it."""
    found = np.ones(len(keys), np.bool_)
    found[slice(None, -1) if after else slice(1, None)] = keys[1:] != keys[:-1]
    return found


def _is_null(column: Any) -> Bools:
    return np.asarray(pc.is_null(column), np.bool_)


def _summed(column: Any, order: Ints, group: Ints) -> Any:
    """Of each row the sum of its group, null where all of it is; in the order of the rows."""
    here = ~_is_null(column)[order]
    kind = np.float64 if pa.types.is_floating(column.type) else np.int64
    values = np.asarray(column.fill_null(0), kind)[order]
    count = int(group[-1]) + 1 if len(group) else 0
    totals = _by_group(values, group, count)
    known = np.bincount(group, here, count) > 0
    back = np.empty(len(order), np.int64)
    back[order] = group
    return pa.array(totals[back], mask=~known[back])


def _by_group(values: NDArray[Any], group: Ints, count: int) -> NDArray[Any]:
    starts = np.searchsorted(group, np.arange(count))
    found: NDArray[Any] = np.add.reduceat(values, starts) if count else values
    return found
