"""Rows of Spark as parcels, for the kernels; see `kshunt.backend.pipeline.kernels.packed_rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.packed_rows import (
    SAMPLES,
    STATE,
    RowGroups,
    as_text,
    pack,
    pack_files,
)

BUCKETS: Final = 64
"""Into which replicas are parted, where nothing is known of how many rows there are."""
ROWS_A_BUCKET: Final = 500_000
_MOST: Final = 4096
_ROWS_A_TASK: Final = 1_000_000
_TASKS: Final = 8
"""At least this many tasks read files, so that all cores have some."""

PARCEL: Final = T.StructType(
    [
        T.StructField("bucket", T.IntegerType()),
        T.StructField("kind", T.IntegerType()),
        T.StructField("rows", T.BinaryType()),
    ]
)

Work = Callable[[Iterable[Any]], Iterator[Any]]


def of_samples(samples: DataFrame) -> DataFrame:
    """Replica samples as parcels."""
    return of_rows(samples, SAMPLES_SCHEMA)


def of_rows(rows: DataFrame, schema: Any) -> DataFrame:
    """Any rows with a `rid`, in these columns of Arrow's, as parcels."""
    return _parcels(rows, schema, SAMPLES)


def of_state(state: DataFrame, schema: Any) -> DataFrame:
    """What is carried of replicas as parcels."""
    return _parcels(state, schema, STATE)


def _parcels(rows: DataFrame, schema: Any, kind: int) -> DataFrame:
    def packed(batches: Iterable[Any]) -> Iterator[Any]:
        return pack(batches, schema=schema, kind=kind, buckets=BUCKETS)

    return rows.select(*schema.names).mapInArrow(packed, PARCEL)


def of_files(
    session: SparkSession,
    files: Sequence[Path],
    schema: Any,
    needless: range = range(0),
) -> DataFrame:
    """The rows of some files as parcels; of those whose times are `needless`, some or none.

    Workers read the files: Spark's own reader hands rows over one by one, which takes several
    times as long.
    """
    found = list(_parts(files, needless))
    tasks = _tasks(found)
    buckets = BUCKETS
    while buckets < min(_MOST, sum(n for _, n in found) // ROWS_A_BUCKET):
        buckets *= 2

    def packed(batches: Iterable[Any]) -> Iterator[Any]:
        return pack_files(batches, schema=schema, buckets=buckets)

    texts = session.createDataFrame([(as_text(parts),) for parts in tasks], "parts string")
    return texts.repartition(len(tasks)).mapInArrow(packed, PARCEL)


def _parts(files: Sequence[Path], needless: range) -> Iterator[tuple[RowGroups, int]]:
    """Row groups, and how many rows each has."""
    for path in files:
        about = pq.read_metadata(path)
        at = about.schema.to_arrow_schema().get_field_index("at")
        for i in range(about.num_row_groups):
            group = about.row_group(i)
            seen = group.column(at).statistics
            if seen is not None and seen.has_min_max:
                least, most = (round(t.timestamp() * 1000) for t in (seen.min, seen.max))
                if least in needless and most in needless:
                    continue
            yield RowGroups(str(path), i, i + 1), group.num_rows


def _tasks(found: Sequence[tuple[RowGroups, int]]) -> list[list[RowGroups]]:
    """Parts by task."""
    most = min(_ROWS_A_TASK, sum(rows for _, rows in found) // _TASKS)
    tasks: list[list[RowGroups]] = [[]]
    waiting = 0
    for part, rows in found:
        if tasks[-1] and waiting + rows > most:
            tasks.append([])
            waiting = 0
        last = tasks[-1][-1] if tasks[-1] else None
        if last is not None and (last.path, last.stop) == (part.path, part.start):
            tasks[-1][-1] = replace(last, stop=part.stop)
        else:
            tasks[-1].append(part)
        waiting += rows
    return tasks


def worked(parcels: DataFrame, work: Work, schema: T.StructType) -> DataFrame:
    """What `work` makes of the parcels; all of a bucket come one after another, in one worker."""
    grouped = parcels.repartition("bucket").sortWithinPartitions("bucket")
    return grouped.mapInArrow(work, schema)
