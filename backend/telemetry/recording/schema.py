"""The columns of `kshunt.backend.domain.pipeline.sample_columns` as Arrow and Parquet know them,
and a reader of them.

A file's metadata names the version of the columns, the cluster and the table; each column's says
its unit and its meaning. A file of an older version is read as one whose later columns are null.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.arrow_rows import with_columns
from kshunt.backend.domain.pipeline.file_faults import FileFault
from kshunt.backend.domain.pipeline.sample_columns import (
    BROKER_SAMPLES,
    CLUSTER_KEY,
    FORECAST_SAMPLES,
    REPLICA_SAMPLES,
    SAMPLES_VERSION,
    VERSION_KEY,
    SampleColumn,
    Type,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, within

TABLE_KEY: Final = "kshunt.samples.table"
"""Key of a file's metadata: which table it is of."""

COLUMNS: Final[Mapping[SampleTable, tuple[SampleColumn, ...]]] = {
    SampleTable.REPLICAS: REPLICA_SAMPLES,
    SampleTable.BROKERS: BROKER_SAMPLES,
    SampleTable.FORECASTS: FORECAST_SAMPLES,
}
_TYPES: Final[Mapping[Type, Any]] = {
    Type.TIME: pa.timestamp("ms", tz="UTC"),
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
}
DICTIONARIES: Final = (
    "topic", "partition", "broker", "leader", "at", "leader_at", "cause", "operation_id", "mode",
)  # fmt: skip
"""Columns of few values; to look for them in the others takes time and saves nothing."""
_LOOKS: Final = 5
"""So often the files are listed anew where one is gone before it is opened."""


class UnreadableSamples(BadInput):
    """A file is no recording of samples, is broken, or is of a newer version."""

    title = "Unreadable samples"

    def __init__(
        self, message: str, *, advice: str = "", fault: FileFault = FileFault.DAMAGED
    ) -> None:
        super().__init__(message, advice=advice)
        self.fault = fault
        """What is wrong with the file."""


def arrow_schema(columns: Sequence[SampleColumn]) -> Any:
    """A table's schema, with the unit and the meaning of each column in its metadata."""
    return pa.schema([_field(column) for column in columns])


def _field(column: SampleColumn) -> Any:
    about = {"unit": column.unit, "meaning": column.meaning, "since": str(column.since)}
    # What a later version brought is null in files of the earlier ones.
    nullable = column.nullable or column.since > 1
    return pa.field(column.name, _TYPES[column.type], nullable, about)


SCHEMAS: Final[Mapping[SampleTable, Any]] = {
    table: arrow_schema(columns) for table, columns in COLUMNS.items()
}


def file_metadata(table: SampleTable, cluster_id: str) -> dict[str, str]:
    """What a file says of itself."""
    return {VERSION_KEY: str(SAMPLES_VERSION), CLUSTER_KEY: cluster_id, TABLE_KEY: table.value}


def parquet(rows: Any, table: SampleTable, cluster_id: str) -> Any:
    """A Parquet file of these rows, in memory."""
    out = pa.BufferOutputStream()
    with parquet_writer(out, table, cluster_id) as writer:
        writer.write_table(rows, row_group_size=max(len(rows), 1))
    return out.getvalue()


def parquet_writer(where: Any, table: SampleTable, cluster_id: str) -> Any:
    """A `pyarrow.parquet.ParquetWriter` of a table's files."""
    schema = SCHEMAS[table]
    named = [name for name in DICTIONARIES if name in schema.names]
    return pq.ParquetWriter(
        where,
        schema.with_metadata(file_metadata(table, cluster_id)),
        compression="zstd",
        use_dictionary=named,
    )


def read_recording(
    folder: Path, table: SampleTable, since_ms: int = 0, until_ms: int = 1 << 62
) -> Any:
    """The rows of a recording in [since_ms, until_ms), as a `pyarrow.Table`; hour by hour.

    Raises:
        UnreadableSamples: a file cannot be read; it is named.
        OSError: a folder cannot be read.
    """
    for _ in range(_LOOKS):
        hours = within(counted(folder, table), since_ms, until_ms)
        wanted = [path for paths in hours.values() for path in paths]
        try:
            rows = read(wanted, table)
        except FileNotFoundError:
            continue
        at = rows["at"].cast(pa.int64()).to_numpy()
        return rows.filter(pa.array((at >= since_ms) & (at < until_ms)))
    raise UnreadableSamples(
        f"Files of {folder} are removed faster than they can be read.",
        advice="Ask for a shorter period, or for one that is not about to be deleted.",
    )


def read(paths: Sequence[Path], table: SampleTable) -> Any:
    """The rows of some files, in their order, as a `pyarrow.Table` of the present version.

    Raises:
        UnreadableSamples: a file cannot be read; it is named.
        FileNotFoundError: a file is gone.
    """
    tables = [read_file(path, table) for path in paths]
    return pa.concat_tables([SCHEMAS[table].empty_table(), *tables])


def read_file(path: Path, table: SampleTable) -> Any:
    """The rows of one file. See `read`."""
    with open_file(path, table) as file:
        try:
            return conform(file.read(), table)
        except (pa.ArrowException, OSError) as error:
            raise broken(path, error) from None


def open_file(path: Path, table: SampleTable) -> Any:
    """A `pyarrow.parquet.ParquetFile` whose rows `conform` takes.

    Raises:
        UnreadableSamples: it is none of this table and of this or an earlier version.
        FileNotFoundError: it is gone.
    """
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise broken(path, error) from None
    try:
        _check(path, table, file.schema_arrow, file.metadata.metadata or {})
    except BaseException:
        file.close()
        raise
    return file


def conform(rows: Any, table: SampleTable) -> Any:
    """Rows of an earlier version with what it lacks as null, in the present order."""
    return with_columns(rows, SCHEMAS[table])


def _check(path: Path, table: SampleTable, schema: Any, metadata: Mapping[bytes, bytes]) -> None:
    about = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in metadata.items()
        if b"kshunt" in key
    }
    version = about.get(VERSION_KEY, "")
    if not version.isdigit():
        raise UnreadableSamples(
            f"{path} is a Parquet file, but not a recording of kshunt's samples.",
            advice="Remove it from the folder; nothing was changed.",
            fault=FileFault.FOREIGN,
        )
    if int(version) > SAMPLES_VERSION:
        raise UnreadableSamples(
            f"{path} has samples of version {version}; this kshunt reads up to {SAMPLES_VERSION}.",
            advice="Read it with the kshunt that wrote it, or a newer one.",
            fault=FileFault.NEWER,
        )
    if about.get(TABLE_KEY) != table:
        raise UnreadableSamples(
            f"{path} holds the table '{about.get(TABLE_KEY, '?')}', but {table} was expected.",
            advice="Put it back into the folder of its own table.",
            fault=FileFault.OTHER_TABLE,
        )
    _check_columns(path, table, schema, int(version))


def _check_columns(path: Path, table: SampleTable, schema: Any, version: int) -> None:
    for column in COLUMNS[table]:
        place = schema.get_field_index(column.name)
        if place < 0 and column.since > version:
            continue
        found = None if place < 0 else schema.field(place).type
        if not _fits(found, _TYPES[column.type]):
            lacks = found is None
            said = "lacks the column" if lacks else f"has {found} in the column"
            raise UnreadableSamples(
                f"{path} has samples of version {version}, but {said} {column.name}.",
                advice="Another program wrote it: remove it from the folder.",
                fault=FileFault.COLUMN_MISSING if lacks else FileFault.COLUMN_CHANGED,
            )


def _fits(found: Any, wanted: Any) -> bool:
    """Whether a column's values are those, a dictionary of them included."""
    if found is not None and pa.types.is_dictionary(found):
        found = found.value_type
    return bool(found == wanted)


def broken(path: Path, error: Exception) -> UnreadableSamples:
    """What is said of a file that pyarrow gives up on."""
    if isinstance(error, OSError) and error.errno is not None:
        return UnreadableSamples(
            f"{path} cannot be read: {os.strerror(error.errno)}.",
            advice="Check its permissions, and the disk that it is on.",
            fault=FileFault.INACCESSIBLE,
        )
    empty = not path.stat().st_size
    why = "it is empty" if empty else str(error).splitlines()[0]
    return UnreadableSamples(
        f"{path} cannot be read as Parquet ({why}).",
        advice="It is damaged or another kind of file: remove it from the folder.",
        fault=FileFault.EMPTY if empty else FileFault.DAMAGED,
    )
