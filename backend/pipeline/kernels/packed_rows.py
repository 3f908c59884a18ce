"""Rows on their way to the worker that works all rows of a replica together.

A *parcel* is the rows of one bucket of replicas, as Arrow's bytes in one cell. To move and to sort
a few thousand parcels costs Spark next to nothing. To move and to sort their rows one by one would
cost more than all that is done with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.pipeline.kernels.replica_runs import NULL, Ints, ints

SAMPLES: Final = 0
STATE: Final = 1
PARCEL: Final = pa.schema([("bucket", pa.int32()), ("kind", pa.int32()), ("rows", pa.binary())])
_TOGETHER: Final = 250_000
"""This many rows are parted at a time, or a few more."""
_WORKED: Final = 400_000
"""At most this many rows are worked at a time, unless one bucket has more."""
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups of a file of samples."""

    path: str
    start: int
    stop: int

    @classmethod
    def parsed(cls, text: str) -> list[RowGroups]:
        """What `as_text` wrote."""
        return [cls(*values) for values in json.loads(text)]


def as_text(parts: Iterable[RowGroups]) -> str:
    """Some parts, for a cell."""
    return json.dumps([(part.path, part.start, part.stop) for part in parts])


def bucket_of(rid: Ints, buckets: int) -> Ints:
    """The bucket of each replica; `buckets` is a power of two."""
    with np.errstate(over="ignore"):
        mixed = rid.view(np.uint64) * _GOLDEN
    shift = np.uint64(64 - (buckets.bit_length() - 1))
    return (mixed >> shift).astype(np.int64) if buckets > 1 else np.zeros(len(rid), np.int64)


def pack(batches: Iterable[Any], *, schema: Any, kind: int, buckets: int) -> Iterator[Any]:
    """Rows, in these columns, as parcels."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(conform(batch, schema))
        if sum(map(len, waiting)) >= _TOGETHER:
            yield _packed(waiting, kind, buckets)
            waiting = []
    if waiting:
        yield _packed(waiting, kind, buckets)


def pack_files(batches: Iterable[Any], *, schema: Any, buckets: int) -> Iterator[Any]:
    """The samples of the `RowGroups`s that each row names, as parcels."""
    texts = (text for batch in batches for text in batch.column(0).to_pylist())
    parts = (part for text in texts for part in RowGroups.parsed(text))
    read = (batch for part in parts for batch in rows_of(part, schema))
    yield from pack(read, schema=schema, kind=SAMPLES, buckets=buckets)


def rows_of(part: RowGroups, schema: Any) -> Iterator[Any]:
    """The rows of a part; columns that it lacks are lacking."""
    with pq.ParquetFile(part.path) as file:
        there = set(file.schema_arrow.names)
        columns = [name for name in schema.names if name in there]
        groups = list(range(part.start, part.stop))
        yield from file.iter_batches(_TOGETHER, groups, columns, use_threads=False)


def conform(batch: Any, schema: Any) -> Any:
    """The same rows in these columns; what is not there is null."""
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    columns = [
        _as(batch.column(field.name), field.type)
        if field.name in names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _as(column: Any, type: Any) -> Any:
    return column if column.type == type else column.cast(type)


def _packed(batches: Sequence[Any], kind: int, buckets: int) -> Any:
    rows = together(batches)
    rid = ints(rows.column("rid"))
    bucket = bucket_of(np.where(rid == NULL, 0, rid), buckets)
    # Sixteen bits are sorted by counting.
    order = np.argsort(bucket.astype(np.uint16), kind="stable")
    sorted_rows = rows.take(pa.array(order))
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    found, cells = [], []
    for number, (end, start) in enumerate(zip(ends, [0, *ends[:-1]], strict=True)):
        if end > start:
            found.append(number)
            cells.append(sorted_rows.slice(start, end - start).serialize().to_pybytes())
    kinds = [kind] * len(found)
    return pa.record_batch([found, kinds, cells], schema=PARCEL)


def together(batches: Sequence[Any]) -> Any:
    """One batch of all these rows."""
    filled = [batch for batch in batches if len(batch)] or batches[:1]
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)


def unpack(batches: Iterable[Any], *, samples: Any, state: Any) -> Iterator[tuple[Any, Any]]:
    """The rows of whole buckets, of parcels in their order: samples and state, unsorted.

    `samples` and `state` are their schemas.
    """
    schemas = {SAMPLES: samples, STATE: state}
    waiting: dict[int, list[Any]] = {SAMPLES: [], STATE: []}
    rows, current = 0, -1
    for batch in batches:
        buckets, kinds = (batch.column(i).to_pylist() for i in (0, 1))
        cells = batch.column(2)
        for i, (bucket, kind) in enumerate(zip(buckets, kinds, strict=True)):
            if bucket != current and rows >= _WORKED:
                yield _opened(waiting, schemas)
                waiting, rows = {SAMPLES: [], STATE: []}, 0
            current = bucket
            opened = pa.ipc.read_record_batch(cells[i].as_buffer(), schemas[kind])
            waiting[kind].append(opened)
            rows += len(opened)
    if rows:
        yield _opened(waiting, schemas)


def _opened(waiting: dict[int, list[Any]], schemas: dict[int, Any]) -> tuple[Any, Any]:
    return _all(waiting[SAMPLES], schemas[SAMPLES]), _all(waiting[STATE], schemas[STATE])


def _all(batches: Sequence[Any], schema: Any) -> Any:
    if batches:
        return together(batches)
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
