"""Recordings as files: sinks that write them, and files as older versions left them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kshunt.backend.domain.pipeline.sample_columns import (
    CLUSTER_KEY,
    VERSION_KEY,
)
from kshunt.backend.telemetry.recording.folder_sink import FolderSink
from kshunt.backend.telemetry.recording.layout import SampleTable, written
from kshunt.backend.telemetry.recording.schema import (
    TABLE_KEY,
)
from tests.support.recording.samples import START_MS, many, table_of


def opened(folder: Path, cluster_id: str = "cluster", now_ms: int = START_MS) -> FolderSink:
    """A sink that writes into this folder."""
    sink = FolderSink(folder)
    sink.open(cluster_id, now_ms)
    return sink


def one_file(folder: Path) -> Path:
    """The path of a good file of replicas."""
    sink = opened(folder)
    sink.write(SampleTable.REPLICAS, table_of(many(3)))
    sink.close()
    return written(folder, SampleTable.REPLICAS)[0].path


def older(path: Path, without: str, version: int) -> None:
    """Write a file anew as an older version that lacks a column."""
    rows = pq.read_table(path).drop_columns([without])
    about = {VERSION_KEY: str(version), CLUSTER_KEY: "cluster", TABLE_KEY: "replicas"}
    pq.write_table(rows.replace_schema_metadata(about), path)
