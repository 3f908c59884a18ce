"""Intervals without an advance, on arrays of many replicas; see
`kshunt.backend.pipeline.tables.stalls`.

What was carried of an open island is one row before its replica's rates (its *seed*).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.pipeline.kernels.packed_rows import unpack
from kshunt.backend.pipeline.kernels.replica_runs import (
    NULL,
    Bools,
    Ints,
    ReplicaRuns,
    ints,
    known,
    longs,
    millis,
    take,
)

RATES: Final = pa.schema(
    [
        ("rid", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("leader", pa.int32()),
        ("operation_id", pa.string()),
        ("log_end_offset", pa.int64()),
        ("lag_messages", pa.int64()),
        ("remaining_messages", pa.int64()),
        ("lag_bytes", pa.int64()),
        ("in_isr", pa.bool_()),
        ("adding", pa.bool_()),
        ("cause", pa.string()),
    ]
)
"""The columns of `rates` that are needed."""
_OPENED: Final = ("topic", "partition", "broker", "leader", "operation_id")
STATE: Final = pa.schema(
    [
        ("rid", pa.int64()),
        ("start", pa.int64()),
        ("at", pa.int64()),
        ("offset", pa.int64()),
        ("lag_messages", pa.int64()),
        ("lag_bytes", pa.int64()),
        *(RATES.field(name) for name in _OPENED),
        ("start_lag_messages", pa.int64()),
        ("start_lag_bytes", pa.int64()),
        ("causes", pa.list_(pa.string())),
        ("votes", pa.list_(pa.int64())),
        ("seen", pa.list_(pa.int64())),
    ]
)
"""One row an open island, however short: what is known of its last row, then of its first, then
how often each cause was diagnosed, and when last. Times in milliseconds."""
MADE: Final = pa.schema([*STATE, ("open", pa.bool_()), ("cause", pa.string())])


@dataclass(frozen=True, slots=True)
class StallSettings:
    """What the table is made with; times in milliseconds."""

    newest_ms: int
    """The newest rate of all."""
    gap_ms: int
    stall_ms: int
    unknown: str
    """Stands for the cause where none was diagnosed."""


def work(batches: Iterable[Any], settings: StallSettings) -> Iterator[Any]:
    """Parcels by bucket to islands: those that are open, and those that are long enough."""
    for rates, state in unpack(batches, samples=RATES, state=STATE):
        found = islands(rates, state, settings)
        if len(found):
            yield found


def islands(rates: Any, state: Any, settings: StallSettings) -> Any:
    """The islands of `rates`, those of `state` gone on with; both in any order."""
    rows = _StallRows.of(rates, state, settings)
    votes = _Votes.of(rates, state, rows, settings.unknown)
    ends = rows.ends
    from_state, first = rows.starts < rows.seeds_n, rows.starts - rows.seeds_n
    here = pa.array(np.where(from_state, 0, first), mask=from_state)
    seed = pa.array(np.where(from_state, rows.starts, 0), mask=~from_state)
    began = rows.at[rows.begins]
    began[from_state] = ints(state.column("start"))[rows.starts[from_state]]
    opened = {
        name: pc.if_else(
            pa.array(from_state), state.column(name).take(seed), rates.column(name).take(here)
        )
        for name in _OPENED
    }
    lags = (rows.lag[rows.begins], rows.lag_bytes[rows.begins])
    for lag, name in zip(lags, ("start_lag_messages", "start_lag_bytes"), strict=True):
        lag[from_state] = ints(state.column(name))[rows.starts[from_state]]
    causes, counts, seen = votes.lists()
    open = rows.is_last[ends] & (rows.at[ends] >= settings.newest_ms - settings.gap_ms)
    columns: Mapping[str, Any] = {
        "rid": pa.array(rows.rid[ends]),
        "start": pa.array(began),
        "at": pa.array(rows.at[ends]),
        "offset": longs(rows.offset[ends]),
        "lag_messages": longs(rows.lag[ends]),
        "lag_bytes": longs(rows.lag_bytes[ends]),
        **opened,
        "start_lag_messages": longs(lags[0]),
        "start_lag_bytes": longs(lags[1]),
        "causes": causes,
        "votes": counts,
        "seen": seen,
        "open": pa.array(open),
        "cause": votes.most(),
    }
    made = pa.record_batch([columns[field.name] for field in MADE], schema=MADE)
    return made.filter(pa.array(open | (rows.at[ends] - began >= settings.stall_ms)))


@dataclass(frozen=True, slots=True)
class _StallRows:
    """Seeds and rates by replica and time."""

    seeds_n: int
    order: Ints
    """Of each row: which of the seeds and then the rates it is."""
    rid: Ints
    at: Ints
    offset: Ints
    """The last that is known."""
    lag: Ints
    lag_bytes: Ints
    is_last: Bools
    """Of its replica."""
    wants: Bools
    island: Ints
    """Of each row that wants to advance: its island's number; of others, that of an earlier one."""
    begins: Ints
    """Of each island: its first row."""

    @property
    def starts(self) -> Ints:
        """Of each island: which of the seeds and then the rates its first row is."""
        return self.order[self.begins]

    @property
    def ends(self) -> Ints:
        """Of each island: its last row."""
        within = np.flatnonzero(self.wants)
        last = np.ones(len(within), np.bool_)
        last[:-1] = self.island[within[1:]] != self.island[within[:-1]]
        return within[last]

    @classmethod
    def of(cls, rates: Any, state: Any, settings: StallSettings) -> _StallRows:
        """Put them into one order, and find the islands."""
        seeds_n = len(state)
        rid, at = _both(rates, state, "rid", "rid"), _both_times(rates, state)
        order = np.lexsort((at, np.arange(len(rid)) >= seeds_n, rid))
        rid, at = rid[order], at[order]
        runs = ReplicaRuns.of_keys(rid)
        known_end = _both(rates, state, "log_end_offset", "offset")[order]
        last = runs.last(known_end != NULL)
        offset, before = take(known_end, last), take(known_end, runs.before(last))
        lag = np.concatenate([ints(state.column("lag_messages")), _lag(rates)])[order]
        wants = np.concatenate([np.ones(seeds_n, np.bool_), _wants(rates)])[order]
        advanced = known(offset, before) & (offset > before)
        goes_on = np.zeros(len(rid), np.bool_)
        goes_on[1:] = wants[:-1] & (at[1:] - at[:-1] <= settings.gap_ms)
        goes_on[runs.starts] = False
        begins = wants & ~(goes_on & ~advanced)
        is_last = np.zeros(len(rid), np.bool_)
        is_last[runs.ends] = True
        lag_bytes = _both(rates, state, "lag_bytes", "lag_bytes")[order]
        island = np.cumsum(begins) - 1
        firsts = np.flatnonzero(begins)
        return cls(seeds_n, order, rid, at, offset, lag, lag_bytes, is_last, wants, island, firsts)


def _both(rates: Any, state: Any, of_rates: str, of_state: str) -> Ints:
    return np.concatenate([ints(state.column(of_state)), ints(rates.column(of_rates))])


def _both_times(rates: Any, state: Any) -> Ints:
    return np.concatenate([ints(state.column("at")), millis(rates.column("at"))])


def _lag(rates: Any) -> Ints:
    lag, remaining = (ints(rates.column(n)) for n in ("lag_messages", "remaining_messages"))
    return np.where(lag == NULL, remaining, lag)


def _wants(rates: Any) -> Bools:
    lag, in_isr, adding = _lag(rates), ints(rates.column("in_isr")), ints(rates.column("adding"))
    wants: Bools = ((in_isr == 0) | (adding == 1)) & ((lag > 0) | (lag == NULL))
    return wants


@dataclass(frozen=True, slots=True)
class _Votes:
    """How often each cause was diagnosed in each island, and when last."""

    names: Sequence[str]
    """The causes that are known, then the one that is used where none is known."""
    counts: Ints
    """Shape (islands, causes)."""
    seen: Ints
    """The same shape: when each was diagnosed last; of one that never was, `NULL`."""

    @classmethod
    def of(cls, rates: Any, state: Any, rows: _StallRows, unknown: str) -> _Votes:
        """Of the rates of each island, and what was carried of it."""
        cause = pc.fill_null(pc.utf8_lower(rates.column("cause")), unknown)
        cause = pc.if_else(pc.equal(cause, "none"), unknown, cause)
        carried = state.column("causes").flatten()
        found = {*cause.unique().to_pylist(), *carried.unique().to_pylist()}
        names = pa.array([*sorted(found - {unknown}), unknown])
        width, cells = len(names), len(rows.begins) * len(names)
        voter = np.flatnonzero(rows.wants & (rows.order >= rows.seeds_n))
        codes = ints(pc.index_in(cause, names))[rows.order[voter] - rows.seeds_n]
        where = rows.island[voter] * width + codes
        counts = np.bincount(where, minlength=cells)
        seen = np.full(cells, NULL, np.int64)
        np.maximum.at(seen, where, rows.at[voter])
        of_seed = np.empty(rows.seeds_n, np.int64)
        from_state = rows.order < rows.seeds_n
        of_seed[rows.order[from_state]] = rows.island[from_state]
        sizes = ints(pc.list_value_length(state.column("causes")))
        where = np.repeat(of_seed, sizes) * width + ints(pc.index_in(carried, names))
        np.add.at(counts, where, ints(state.column("votes").flatten()))
        np.maximum.at(seen, where, ints(state.column("seen").flatten()))
        return cls(names.to_pylist(), counts.reshape(-1, width), seen.reshape(-1, width))

    def lists(self) -> tuple[Any, Any, Any]:
        """Of each island the causes that were diagnosed, how often, and when last."""
        island, cause = np.nonzero(self.counts)
        offsets = np.searchsorted(island, np.arange(len(self.counts) + 1))
        at = pa.array(offsets, pa.int32())
        columns = (
            pa.array(self.names, pa.string()).take(pa.array(cause)),
            pa.array(self.counts[island, cause], pa.int64()),
            pa.array(self.seen[island, cause], pa.int64()),
        )
        causes, votes, seen = (pa.ListArray.from_arrays(at, column) for column in columns)
        return causes, votes, seen

    def most(self) -> Any:
        """Of each island the cause with the most votes; the unknown one only where it is alone.

        Of several with the same number of votes it is the one that was diagnosed last: that
        diagnosis had seen the most of the island. No two were seen last at the same time.
        """
        counts = self.counts.copy()
        # Below any cause that was diagnosed, and above those that never were.
        counts[:, -1] = 0
        leads = counts == counts.max(axis=1, keepdims=True)
        last = np.argmax(np.where(leads, self.seen, NULL), axis=1)
        last[counts.max(axis=1) == 0] = counts.shape[1] - 1
        return pa.array(self.names, pa.string()).take(pa.array(last))
