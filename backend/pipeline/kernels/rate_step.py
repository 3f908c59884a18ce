"""One step of the table `rates` in a worker of Spark: parcels of samples and of state to rows.

A row that comes out is one of the table, or what is carried on of a replica, or a count of rows
that broke an expectation; `Kind` tells which. What is carried is one cell of bytes: to copy sixty
numbers a replica, one by one, would take Spark longer than all else of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.pipeline.result_columns import GAP_S, TICK_S, WINDOWS
from kshunt.backend.pipeline.kernels.packed_rows import unpack
from kshunt.backend.pipeline.kernels.quality import Checks, checked, ordered
from kshunt.backend.pipeline.kernels.rates import (
    COPY,
    COUNTERS,
    FIXED,
    RateSettings,
    RateState,
    RateTable,
    Samples,
    rates,
)
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Ints, ints, longs, millis

ROW: Final = 0
STATE: Final = 1
COUNT: Final = 2
STATE_SCHEMA: Final = pa.schema([("rid", pa.int64()), ("at", pa.int64()), ("kept", pa.binary())])
"""One row a replica: the time of its last anchor in milliseconds, and `packed` numbers."""
SETTINGS: Final = RateSettings(
    TICK_S * 1000,
    GAP_S * 1000,
    tuple((window.name, window.seconds * 1000, window.step_s * 1000) for window in WINDOWS),
)
_A_BATCH: Final = 50_000
_HEAD: Final = FIXED - len(COPY)
_AT_END: Final = np.arange(-len(COPY), 0)
_TIME: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is told."""

    settings: RateSettings
    samples: Any
    """Schema of the samples that come."""
    made: Any
    """Schema of what comes out: the table's columns, then `_kind`, `_number`, `_name`, `_kept`."""
    checks: Checks | None
    """None: the samples were looked at before."""
    carries: bool
    """Whether a state comes out too."""


def work(batches: Iterable[Any], work: Work) -> Iterator[Any]:
    """Parcels by bucket to rows."""
    counts: dict[str, int] = {}
    for samples, state in unpack(batches, samples=work.samples, state=STATE_SCHEMA):
        if work.checks is None:
            order = ordered(samples)
        else:
            looked = checked(samples, work.checks)
            order = looked.order
            counts = {n: counts.get(n, 0) + found for n, found in looked.counts.items()}
        former = state_of(state, work.settings)
        made = rates(samples_of(samples, order), former, work.settings, carries=work.carries)
        yield from _sliced(rows_of(samples, order, made, work.made))
        if work.carries:
            yield from _sliced(_carried(made.state, work.made))
    if counts:
        numbers = {"_number": pa.array(counts.values(), pa.int64()), "_name": pa.array(counts)}
        yield _batch(COUNT, len(counts), numbers, work.made)


def samples_of(rows: Any, order: Ints) -> Samples:
    """Rows in this order, as the kernel of rates takes them."""
    at, leader_at = millis(rows.column("at"))[order], millis(rows.column("leader_at"))[order]
    ends = ("log_end_offset", "leader_log_end_offset")
    sizes = ("size_bytes", "leader_size_bytes", "lag_bytes")
    leader, end, leader_end, size, leader_size, lag = (
        ints(rows.column(name))[order] for name in ("leader", *ends, *sizes)
    )
    broker, in_isr, adding = (
        ints(rows.column(name))[order] for name in ("broker", "in_isr", "adding")
    )
    copying = ((adding == 1) | (in_isr == 0)) & (leader != broker) & (leader != NULL)
    return Samples(
        rid=ints(rows.column("rid"))[order],
        at=at,
        leader=leader,
        leader_at=np.where(leader_at == NULL, at, leader_at),
        offset=end,
        leader_offset=leader_end,
        size=size,
        leader_size=leader_size,
        lag_bytes=lag,
        copying=copying.astype(np.int64),
        in_isr=in_isr,
    )


def rows_of(samples: Any, order: Ints, made: RateTable, schema: Any) -> Any:
    """The rates of `samples` in this order, in the columns of a schema."""
    which = pa.array(order[made.anchors])
    columns = {
        field.name: _array(made.columns[field.name], field.type)
        if field.name in made.columns
        else samples.column(field.name).take(which)
        for field in schema
        if field.name in made.columns or field.name in samples.schema.names
    }
    return _batch(ROW, len(which), columns, schema)


def _array(values: Any, type: Any) -> Any:
    if pa.types.is_floating(type):
        return pa.array(values, type, from_pandas=True)
    if pa.types.is_timestamp(type):
        return pa.array(values * 1000).cast(type)
    return longs(values, type)


def _carried(state: RateState, schema: Any) -> Any:
    columns = {
        "rid": pa.array(state.rid),
        "_number": pa.array(state.at),
        "_kept": packed(state),
    }
    return _batch(STATE, len(state.rid), columns, schema)


def _batch(kind: int, rows: int, columns: Mapping[str, Any], schema: Any) -> Any:
    columns = {**columns, "_kind": pa.array(np.full(rows, kind, np.int32))}
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _sliced(batch: Any) -> Iterator[Any]:
    """Parts that a Java of little memory can take."""
    for start in range(0, len(batch), _A_BATCH):
        yield batch.slice(start, _A_BATCH)


# What is carried, as bytes


def packed(state: RateState) -> Any:
    """Of each replica: the fixed numbers, how many marks there are of each window, and these.

    `COPY` is the last of all.
    """
    counts = [count for count, _ in state.marks]
    head = _HEAD + len(counts)
    lengths = head + len(COPY) + len(COUNTERS) * sum(counts, np.zeros(len(state.rid), np.int64))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    numbers = np.empty(int(lengths.sum()), np.int64)
    numbers[starts[:, None] + np.arange(head)] = np.concatenate([state.fixed[:_HEAD], counts]).T
    numbers[ends[:, None] + _AT_END] = state.fixed[_HEAD:].T
    begin = starts + head
    for count, marks in state.marks:
        numbers[_places(begin, count)[:, None] + np.arange(len(COUNTERS))] = marks.T
        begin = begin + count * len(COUNTERS)
    offsets = np.append(0, ends * 8).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.binary(), len(state.rid), buffers)


def unpacked(rid: Ints, at: Ints, carried: Any, windows: int) -> RateState:
    """What `packed` made, or a former version of it that left out `COPY`."""
    _, offsets, data = carried.buffers()
    in_bytes = np.frombuffer(offsets, np.int32)[carried.offset : carried.offset + len(carried) + 1]
    ends = in_bytes.astype(np.int64) // 8
    numbers = np.frombuffer(data, np.int64, count=int(ends[-1]))
    head = numbers[ends[:-1, None] + np.arange(_HEAD + windows)].T
    begin = ends[:-1] + _HEAD + windows
    marks = []
    for count in head[_HEAD:]:
        marks.append((count, numbers[_places(begin, count)[:, None] + np.arange(len(COUNTERS))].T))
        begin = begin + count * len(COUNTERS)
    copies = np.where(ends[1:] > begin, numbers[ends[1:, None] + _AT_END].T, NULL)
    return RateState(rid, at, np.concatenate([head[:_HEAD], copies]), marks)


def _places(begin: Ints, count: Ints) -> Ints:
    """Where the marks of each replica are, in the numbers of all."""
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    places: Ints = np.repeat(begin, count) + within * len(COUNTERS)
    return places


def state_of(rows: Any, settings: RateSettings) -> RateState:
    """What is carried, out of rows of `STATE_SCHEMA`."""
    windows: Sequence[Any] = settings.windows
    if not len(rows):
        return RateState.nothing(len(windows))
    rid, at = (ints(rows.column(name)) for name in ("rid", "at"))
    return unpacked(rid, at, rows.column("kept"), len(windows))
