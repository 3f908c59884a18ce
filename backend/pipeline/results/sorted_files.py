"""One sorted file in the place of many: how an hour of a table is written when it is compacted.

Rows of `rates` are thinned on the way; see `kshunt.backend.pipeline.kernels.at_rest`. Files are
read twice for it: first the few columns that decide which rows are kept, then the rest, by parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.arrow_rows import sorted_groups, with_columns
from kshunt.backend.domain.pipeline.result_columns import RATES, ResultTable
from kshunt.backend.pipeline.kernels import at_rest
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.kernels.at_rest import Before, Thinned

ROWS_A_GROUP: Final = 250_000
"""Rows are sorted and written in groups of about this many: so much is in memory."""
ROWS_AT_ONCE: Final = 1_000_000
"""About this many are thinned together, in the few columns that decide: so much is in memory."""
_SORT_KEYS: Final = ("operation_id", "rid")
"""A replica's rows resemble each other, so its columns get small if they are together."""
_DELTAS: Final = "DELTA_BINARY_PACKED"
_MOMENT: Final = pa.timestamp("us", "UTC")
Item = TypeVar("Item")


class Stopped(Exception):
    """It was told to stop: what is not published yet is dropped."""


def until_stopped(items: Iterable[Item], is_stopped: Callable[[], bool]) -> Iterator[Item]:
    """The items.

    Raises:
        Stopped: `is_stopped` became true.
    """
    for item in items:
        if is_stopped():
            raise Stopped
        yield item


def write_sorted(
    paths: Sequence[Path],
    target: Path,
    table: ResultTable,
    is_stopped: Callable[[], bool],
    hour_before: Sequence[Path] = (),
) -> None:
    """Write the rows of files of one hour into one file, sorted in groups.

    `hour_before` are the files of the hour before, if they are known; only for rates they matter.

    Raises:
        pyarrow.ArrowException: a file cannot be read, or has a column of another type.
        ValueError: the new file has another number of rows than it should have.
        Stopped: `is_stopped` became true.
    """
    schema, expected = _common_schema(until_stopped(paths, is_stopped))
    thin = None
    if table is RATES:
        thin = _thinned(paths, expected, hour_before, is_stopped)
        expected = int(thin.kept.sum())
    keys = dict.fromkeys([*(key for key in _SORT_KEYS if key in schema.names), table.hour_of])
    with pq.ParquetWriter(target, schema, compression="zstd", **_encodings(schema)) as writer:
        rows = _rows(until_stopped(paths, is_stopped), schema, thin)
        for group in sorted_groups(rows, list(keys), ROWS_A_GROUP):
            writer.write_table(group, row_group_size=len(group))
    if (rows_n := pq.read_metadata(target).num_rows) != expected:
        raise ValueError(f"{rows_n:,} of {expected:,} rows were written")


def _encodings(schema: Any) -> dict[str, Any]:
    """Times, and what changes steadily in sorted rows, are small as differences."""
    deltas = [f.name for f in schema if pa.types.is_timestamp(f.type) or f.name in _STEADY]
    others = [field.name for field in schema if field.name not in deltas]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(deltas, _DELTAS)}


_STEADY: Final = frozenset(
    {
        *("log_end_offset", "leader_log_end_offset", "lag_bytes", "lag_messages"),
        *("remaining_bytes", "remaining_messages"),
    }
)
"""What grows or shrinks by about as much from each row of a replica to the next one."""


def _common_schema(paths: Iterable[Path]) -> tuple[Any, int]:
    """Columns of all files, and how many rows they have: a newer version may have added columns."""
    schemas, rows = dict[Any, None](), 0
    for path in paths:
        footer = pq.read_metadata(path)
        schemas[_as_moments(footer.schema.to_arrow_schema())] = None
        rows += footer.num_rows
    return pa.unify_schemas(list(schemas)), rows


def _as_moments(schema: Any) -> Any:
    """The schema without notes of its writer, its times as microseconds of UTC."""
    return pa.schema(
        pa.field(f.name, _MOMENT if pa.types.is_timestamp(f.type) else f.type) for f in schema
    )


def _rows(paths: Iterable[Path], schema: Any, thin: Thinned | None) -> Iterator[Any]:
    start = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_A_GROUP, use_threads=False):
                rows = with_columns(pa.Table.from_batches([batch]), schema)
                yield rows if thin is None else thin.of_slice(rows, start)
                start += len(rows)


# Replicas at rest


_DECIDING: Final = pa.schema(
    [field for field in arrow_of(RATES.columns) if field.name in at_rest.NEEDED]
)


def _thinned(
    paths: Sequence[Path],
    rows: int,
    hour_before: Sequence[Path],
    is_stopped: Callable[[], bool],
) -> Thinned:
    """Some replicas after others, so that the rows of a large cluster fit into memory."""
    parts = rows // ROWS_AT_ONCE + 1
    kept = np.ones(rows, np.bool_)
    sums: dict[str, list[Any]] = {name: [] for name in at_rest.SUMMED}
    places = []
    for part in range(parts):
        place, mine = _of_part(until_stopped(paths, is_stopped), part, parts)
        found = at_rest.thinned(mine, _before(hour_before, part, parts))
        kept[place] = found.kept
        places.append(place)
        for name, values in found.sums.items():
            sums[name].append(values)
    back = np.empty(rows, np.int64)
    back[np.concatenate(places)] = np.arange(rows)
    in_order = {name: pa.concat_arrays(some).take(pa.array(back)) for name, some in sums.items()}
    return Thinned(kept, in_order)


def _before(paths: Sequence[Path], part: int, parts: int) -> Before:
    """A damaged file leaves its own hour as it is, and no other one."""
    try:
        return Before.of(_of_part(paths, part, parts)[1])
    except (pa.ArrowException, OSError, ValueError):
        return Before.nothing()


def _of_part(paths: Iterable[Path], part: int, parts: int) -> tuple[Any, Any]:
    """The rows of one of some parts of the replicas: their numbers, and what decides on them."""
    places, found, start = [np.empty(0, np.int64)], [_DECIDING.empty_table()], 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            there = [name for name in _DECIDING.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(ROWS_A_GROUP, columns=there, use_threads=False):
                rows = with_columns(pa.Table.from_batches([batch]), _DECIDING)
                place = np.arange(start, start + len(rows))
                start += len(rows)
                if parts > 1:
                    mine = rows["rid"].to_numpy() % parts == part
                    place, rows = place[mine], rows.filter(pa.array(mine))
                places.append(place)
                found.append(rows)
    return np.concatenate(places), pa.concat_tables(found).combine_chunks()
