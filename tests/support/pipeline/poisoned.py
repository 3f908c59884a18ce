"""Files that no recorder has written, put among those of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.domain.pipeline.file_faults import FileFault
from kshunt.backend.domain.pipeline.sample_columns import SAMPLES_VERSION, VERSION_KEY, hour_folder
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import TABLE_KEY, file_metadata, parquet
from tests.support.pipeline.recorded import SCHEMA, START_MS, sample, table

FAR: int = 10**17
"""A number that no recorder comes to."""


def path_of(folder: Path, number: int, at_ms: int = START_MS) -> Path:
    """Of a file of replicas in the hour of a moment; its folder is made."""
    path = folder / SampleTable.REPLICAS / hour_folder(at_ms) / file_name(at_ms, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def whole(offsets: Sequence[int] = (1, 2), cluster: str = "c1") -> bytes:
    """A file as a recorder writes it."""
    rows = table([sample(5 * i, offset, rid=99) for i, offset in enumerate(offsets)])
    content: bytes = parquet(rows.cast(SCHEMA), SampleTable.REPLICAS, cluster).to_pybytes()
    return content


def torn() -> bytes:
    """A file whose footer is whole, and whose pages are not."""
    content = whole(range(3000))
    return content[:60] + bytes(len(content) // 4) + content[60 + len(content) // 4 :]


def poison(folder: Path, first: int) -> dict[str, FileFault]:
    """Put one file of each kind into a recording; their names, and what is wrong with each."""
    made: dict[str, FileFault] = {}

    def put(fault: FileFault, content: bytes, number: int | None = None) -> None:
        path = path_of(folder, first + len(made) if number is None else number)
        path.write_bytes(content)
        made[str(path.relative_to(folder))] = fault

    put(FileFault.DAMAGED, whole()[:-40])
    put(FileFault.EMPTY, b"")
    put(FileFault.DAMAGED, b"not a file of anyone's")
    put(FileFault.OTHER_CLUSTER, whole(cluster="c2"))
    put(FileFault.FOREIGN, _parquet(pa.table({"a": [1]}), {}), FAR)
    put(FileFault.NEWER, _parquet(table([]), {VERSION_KEY: str(SAMPLES_VERSION + 1)}))
    put(FileFault.OTHER_TABLE, _parquet(table([]), {TABLE_KEY: "brokers"}))
    lacks = table([sample(0, 1)]).drop_columns(["log_end_offset"])
    put(FileFault.COLUMN_MISSING, _parquet(lacks, {}, ours=True))
    other = table([sample(0, 1)])
    other = other.set_column(0, "at", pa.array(["yesterday"]))
    put(FileFault.COLUMN_CHANGED, _parquet(other, {}, ours=True))
    put(FileFault.DAMAGED, torn())
    return made


def _parquet(rows: pa.Table, metadata: dict[str, str], *, ours: bool = False) -> bytes:
    if ours or metadata:
        metadata = {**file_metadata(SampleTable.REPLICAS, "c1"), **metadata}
    out = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(metadata), out)
    content: bytes = out.getvalue().to_pybytes()
    return content
