"""One batch of the streaming job in a worker: samples and what is remembered to rates.

Goals
    A tick of 200,000 replicas within two seconds on two cores, however it is cut into batches.
Constraints
    What is remembered of 200,000 replicas is more than all that a tick brings. The worker of a
    bucket of replicas reads and writes it as a file, so it never goes through Spark. A worker that
    is started again for the same bucket writes the same files.
Algorithm
    Samples that are not closed yet (`kshunt.backend.pipeline.jobs.stream` says what that is) are
    read with the new ones, all are looked at and put in order. Rates of the closed ones follow
    the state, and what is carried on is the state after them; rates of the others follow that, and
    the samples themselves are kept. To Spark go numbers, and rows that were set aside.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.kernels import quality, rate_step, stalls
from kshunt.backend.pipeline.kernels.packed_rows import (
    PARCEL,
    SAMPLES,
    bucket_of,
    pack_files,
    together,
)
from kshunt.backend.pipeline.kernels.quality import Before, Checks
from kshunt.backend.pipeline.kernels.rates import RateSettings, RateState, Samples, rates
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints, millis, take

RATES: Final = "rates"
STALLS: Final = "stalls"
OPEN: Final = "open "
"""Begins what is said of rows that are not closed."""
PARTS: Final = ".parts"
"""The folder of what replaces a part: Spark reads no folder whose own name begins with a dot."""
STATE: Final = "state"
PENDING: Final = "pending"
LATE: Final = "late"
BAD: Final = "bad"
FOUND: Final = pa.schema([("name", pa.string()), ("number", pa.int64()), ("rows", pa.binary())])
"""What goes to Spark: a sum or a time by name, or the rows that were set aside."""
OLDEST: Final = "oldest "
NEWEST: Final = "newest "
"""Begin the names of times in milliseconds: of all of a name the least, or the greatest, counts."""
_STATE_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))
"""Of 200,000 replicas a batch writes 40 MB so; by `lz4` it writes 67 MB, in 0.1 s of CPU less."""
_NOTHING: Final = SAMPLES + 1000
"""Kind of a parcel without rows, for a bucket that nothing may have come for."""


@dataclass(frozen=True, slots=True)
class WorkerBatch:
    """What a worker is told. Times in milliseconds."""

    settings: RateSettings
    checks: Checks
    samples: Any
    """Schema of the samples."""
    rates: Any
    """Schema of the table's columns."""
    stalls: Any
    """The same of the other table."""
    buckets: int
    """A power of two."""
    former: str
    """Folder of what was remembered: `STATE` and `PENDING` below it."""
    remembered: str
    """Folder of what is to be remembered."""
    into: str
    """Folder to write to: Tables by the hour, and in `PARTS` what is not closed of them."""
    before_ms: int
    """Ticks that end by then were closed by former batches."""
    closed_ms: int
    """Ticks that end by then are closed by this one."""
    stalling: stalls.StallSettings
    """Of the other table; its `newest_ms` is the newest sample so far."""
    late_ms: int
    """A row of a replica that rests may be older by so much than the newest."""
    forget_after_ms: int
    """Replicas that were not seen for this time before `closed_ms` are forgotten."""

    whole: bool = False
    """All buckets are worked together: what is remembered of them is one file a kind, and no folder
    with one each."""

    @property
    def compression(self) -> str:
        """Of the tables' files. Small ones gain little by `zstd`: compaction writes them anew."""
        return "snappy" if self.whole else "zstd"

    @property
    def forget_ms(self) -> int:
        """Replicas that were not seen since are forgotten."""
        return self.closed_ms - self.forget_after_ms


def parcels_of(batches: Iterable[Any], schema: Any, buckets: int) -> Iterator[Any]:
    """The samples of the files that each row names, as parcels; see `pack_files`."""
    yield nothing(buckets)
    yield from pack_files(batches, schema=schema, buckets=buckets)


def nothing(buckets: int) -> Any:
    """A parcel without rows for each bucket, so that what is remembered of it is looked at."""
    kinds = [_NOTHING] * buckets
    return pa.record_batch([range(buckets), kinds, [b""] * buckets], schema=PARCEL)


def work(batches: Iterable[Any], batch: WorkerBatch) -> Iterator[Any]:
    """Parcels of whole buckets to what `FOUND` says."""
    buckets, new = _opened(batches, batch.samples)
    if buckets:
        yield from work_rows(buckets, new, batch)


def work_rows(buckets: list[int], new: list[Any], batch: WorkerBatch) -> Iterator[Any]:
    """The new samples of whole buckets, one batch of rows at least, to what `FOUND` says."""
    rows = together([*new, *_former(batch, PENDING, buckets, batch.samples)])
    carried = _former(batch, STATE, buckets, rate_step.STATE_SCHEMA)
    looked = _looked(rows, rate_step.state_of(together(carried), batch.settings), batch)
    closed = rates(looked.samples(looked.closed), looked.state, batch.settings)
    opened = rates(looked.samples(looked.open), closed.state, batch.settings, carries=False)
    tables = _Tables(
        rate_step.rows_of(rows, looked.closed, closed, batch.rates),
        rate_step.rows_of(rows, looked.open, opened, batch.rates),
    )
    _write_state(batch, STATE, buckets, _carried(_seen_since(closed.state, batch.forget_ms)))
    _write_state(batch, PENDING, buckets, rows.take(pa.array(looked.open)))
    yield _found({**looked.counts, "rows": sum(map(len, new))})
    yield from _written(batch, buckets, RATES, "at", tables)
    yield from _written(batch, buckets, STALLS, "end", _stalls(batch, buckets, tables))
    for what, which in ((LATE, looked.late), (BAD, looked.bad)):
        if len(which):
            yield _cell(what, rows.take(pa.array(which)))


@dataclass(frozen=True, slots=True)
class _Tables:
    """Rows of a table."""

    closed: Any
    """For good."""
    open: Any
    """Until the next batch."""


def _stalls(batch: WorkerBatch, buckets: list[int], rates: _Tables) -> _Tables:
    """Those that have ended, and those that have not; the state of the latter is written."""
    former = together(_former(batch, STALLS, buckets, stalls.STATE))
    # A replica whose samples may still come late is not taken for gone.
    closing = replace(batch.stalling, newest_ms=batch.closed_ms - batch.late_ms)
    closed = _islands(rates.closed, former, closing)
    state = closed.filter(closed.column("open")).select(stalls.STATE.names)
    _write_state(batch, STALLS, buckets, state)
    ended = closed.filter(pc.invert(closed.column("open")))
    opened = _islands(rates.open, state, batch.stalling)
    long = ints(opened.column("at")) - ints(opened.column("start")) >= batch.stalling.stall_ms
    return _Tables(
        _stall_rows(ended, batch.stalls), _stall_rows(opened.filter(pa.array(long)), batch.stalls)
    )


def _islands(rates: Any, state: Any, settings: stalls.StallSettings) -> Any:
    if len(rates) or len(state):
        return stalls.islands(rates, state, settings)
    return no_rows(stalls.MADE)


def _stall_rows(found: Any, schema: Any) -> Any:
    """Islands in the table's columns."""
    start, end = (ints(found.column(name)) for name in ("start", "at"))
    made = {
        "start": pa.array(start * 1000).cast(pa.timestamp("us", "UTC")),
        "end": pa.array(end * 1000).cast(pa.timestamp("us", "UTC")),
        "seconds": pa.array((end - start) / 1000),
        "lag_start_messages": found.column("start_lag_messages"),
        "lag_start_bytes": found.column("start_lag_bytes"),
        "lag_end_messages": found.column("lag_messages"),
        "lag_end_bytes": found.column("lag_bytes"),
    }
    columns = [made[name] if name in made else found.column(name) for name in schema.names]
    return pa.record_batch(columns, schema=schema)


def _written(
    batch: WorkerBatch, buckets: list[int], table: str, hour_of: str, rows: _Tables
) -> Iterator[Any]:
    """Write a table's rows, and say how many there are and from when."""
    name = f"part-{buckets[0]:05}"
    for hour, some in _by_hour(rows.closed, hour_of):
        _write_parquet(Path(batch.into, table, hour), name, some, batch.compression)
    if len(rows.open):
        _write_parquet(Path(batch.into, PARTS, table), name, rows.open, batch.compression)
    times = _times(table, rows.closed, hour_of) | _times(f"{OPEN}{table}", rows.open, hour_of)
    yield _found({table: len(rows.closed), **times})


def no_rows(schema: Any) -> Any:
    """A batch without rows."""
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _opened(batches: Iterable[Any], schema: Any) -> tuple[list[int], list[Any]]:
    """The buckets that have come, and their rows."""
    buckets: set[int] = set()
    rows = [no_rows(schema)]
    for batch in batches:
        buckets |= set(batch.column(0).to_pylist())
        for kind, cell in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            if kind == SAMPLES:
                rows.append(pa.ipc.read_record_batch(cell.as_buffer(), schema))
    return sorted(buckets), rows


@dataclass(frozen=True, slots=True)
class _Looked:
    """Rows, and what becomes of them. Arrays of row numbers; the first two by replica and time."""

    rows: Any
    state: RateState
    closed: Ints
    open: Ints
    late: Ints
    bad: Ints
    counts: dict[str, int]
    """Rows that broke each expectation."""

    def samples(self, which: Ints) -> Samples:
        """Rows as the kernel of rates takes them."""
        return rate_step.samples_of(self.rows, which)


def _looked(rows: Any, state: RateState, batch: WorkerBatch) -> _Looked:
    at = millis(rows.column("at"))
    counts, fit = {}, np.ones(len(at), np.bool_)
    for name, broken in quality.by_themselves(rows, at, batch.checks).items():
        counts[name] = int(broken.sum())
        fit &= ~broken
    order = quality.in_order(rows, at, np.flatnonzero(fit))
    rid, when = ints(rows.column("rid"))[order], at[order]
    twice = np.zeros(len(order), np.bool_)
    twice[1:] = (rid[1:] == rid[:-1]) & (when[1:] == when[:-1])
    order, rid, when = order[~twice], rid[~twice], when[~twice]
    last = _places(state.rid, rid)
    late = _late(when, take(state.at, last), batch)
    closed = ~late & (when < batch.closed_ms)
    counts["unique"] = int(twice.sum())
    carried = (state.at, state.of("leader"), state.of("offset"))
    before = Before(*(take(values, last[closed]) for values in carried))
    for name, broken in quality.by_previous(rows, at, order[closed], before, batch.checks).items():
        counts[name] = int(broken.sum())
    return _Looked(
        rows,
        state,
        order[closed],
        order[~late & ~closed],
        order[late],
        np.flatnonzero(~fit),
        counts,
    )


def _places(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted key is among the keys; -1: nowhere."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


def _late(at: Ints, last: Ints, batch: WorkerBatch) -> Bools:
    """Rows whose tick, or a later one of their replica, was closed with rows."""
    tick_ms = batch.settings.tick_ms
    # A replica that is not remembered was not seen for long; what is older than that may be old.
    forgotten = (last == NULL) & (at < batch.before_ms - batch.forget_after_ms)
    seen = (last != NULL) & (at // tick_ms <= last // tick_ms)
    late: Bools = (at < batch.before_ms) & (forgotten | seen)
    return late


def _carried(state: RateState) -> Any:
    columns = [pa.array(state.rid), pa.array(state.at), rate_step.packed(state)]
    return pa.record_batch(columns, schema=rate_step.STATE_SCHEMA)


def _seen_since(state: RateState, since_ms: int) -> RateState:
    """What is carried of replicas, without those that were not seen since."""
    seen = state.at >= since_ms
    if seen.all():
        return state
    marks = [(count[seen], m[:, np.repeat(seen, count)]) for count, m in state.marks]
    return RateState(state.rid[seen], state.at[seen], state.fixed[:, seen], marks)


# Files


def _former(batch: WorkerBatch, what: str, buckets: list[int], schema: Any) -> list[Any]:
    """What was remembered of some buckets, whichever job has written it."""
    whole = _state_rows(Path(batch.former, f"{what}.arrow"))
    if whole and len(buckets) < batch.buckets:
        of = (bucket_of(ints(rows.column("rid")), batch.buckets) for rows in whole)
        wanted = [pa.array(np.isin(each, buckets)) for each in of]
        whole = [rows.filter(which) for rows, which in zip(whole, wanted, strict=True)]
    found = [no_rows(schema), *whole]
    for bucket in [] if whole else buckets:
        found += _state_rows(Path(batch.former, what, f"{bucket:05}.arrow"))
    return found


def _state_rows(path: Path) -> list[Any]:
    """The rows of a file of the state; none where there is no file."""
    with contextlib.suppress(FileNotFoundError), pa.OSFile(str(path)) as file:
        batches: list[Any] = pa.ipc.open_file(file).read_all().combine_chunks().to_batches()
        return batches
    return []


def _write_state(batch: WorkerBatch, what: str, buckets: Iterable[int], rows: Any) -> None:
    """Let rows be what is remembered of some buckets."""
    folder = Path(batch.remembered) if batch.whole else Path(batch.remembered, what)
    folder.mkdir(parents=True, exist_ok=True)
    if batch.whole:
        _write_rows(folder, f"{what}.arrow", rows)
        return
    of = bucket_of(ints(rows.column("rid")), batch.buckets)
    order = np.argsort(of.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(of, minlength=batch.buckets))
    rows = rows.take(pa.array(order))
    for bucket in buckets:
        start = int(ends[bucket - 1]) if bucket else 0
        _write_rows(folder, f"{bucket:05}.arrow", rows.slice(start, int(ends[bucket]) - start))


def _write_rows(folder: Path, name: str, rows: Any) -> None:
    aside = folder / f".{name}.tmp"
    with pa.ipc.new_file(str(aside), rows.schema, options=_STATE_OPTIONS) as file:
        file.write_batch(rows)
    os.replace(aside, folder / name)


def _write_parquet(folder: Path, name: str, rows: Any, compression: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{name}.tmp"
    strings = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    pq.write_table(pa.table(rows), aside, compression=compression, use_dictionary=strings)
    os.replace(aside, folder / f"{name}.parquet")


def _by_hour(rows: Any, hour_of: str) -> Iterator[tuple[str, Any]]:
    if len(rows):
        hours = millis(rows.column(hour_of)) // HOUR_MS
        for hour in np.unique(hours).tolist():
            here = hours == hour
            name = hour_folder(hour * HOUR_MS)
            yield name, rows if here.all() else rows.filter(pa.array(here))


# What goes to Spark


def _found(numbers: Mapping[str, int]) -> Any:
    columns = [pa.array(numbers), pa.array(numbers.values(), pa.int64())]
    return pa.record_batch([*columns, pa.nulls(len(numbers), pa.binary())], schema=FOUND)


def _cell(name: str, rows: Any) -> Any:
    cell = rows.serialize().to_pybytes()
    return pa.record_batch([[name], pa.array([len(rows)]), [cell]], schema=FOUND)


def _times(name: str, rows: Any, of: str) -> dict[str, int]:
    if not len(rows):
        return {}
    at = millis(rows.column(of))
    return {f"{OLDEST}{name}": int(at.min()), f"{NEWEST}{name}": int(at.max())}
