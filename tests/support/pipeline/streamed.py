"""A streaming job over a recording in this process, and what it left.

As `python -m tests.support.pipeline.streamed RECORDING RESULTS` a process of its own, to be
killed: it takes a file a batch, and prints a line for each.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.delivered_files.result_files import current_files
from kshunt.backend.pipeline.batches.holding import CountedBatch, begun, held
from kshunt.backend.pipeline.jobs.stream import Streaming, stream
from kshunt.backend.pipeline.jobs.stream_batches import BatchContext
from kshunt.backend.pipeline.jobs.stream_sources import FolderSource
from kshunt.backend.pipeline.results.maintenance import KeptDays
from kshunt.backend.pipeline.spark.session import start_session
from tests.support.pipeline.recorded import Row, write
from tests.support.pipeline.spark import quick_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = KeptDays(by_tick_days=14, others_days=730)
KEYS = {
    "rates": ("rid", "tick"),
    "stalls": ("rid", "start"),
    "move_pairs": ("start", "source", "destination", "throttled"),
    "quality": ("expectation",),
    "quarantine": ("at", "rid", "reasons"),
}


def streamed(
    session: SparkSession,
    folder: Path,
    results: Path,
    *,
    files_most: int = 240,
    clock: Clock | None = None,
    said: Callable[[CountedBatch], None] = lambda batch: None,
) -> list[CountedBatch]:
    """Let a job read all that is there; its batches, each of which is `said` when it is done."""
    clock = clock or SystemClock()
    done: list[CountedBatch] = []

    def counted(batch: CountedBatch) -> None:
        done.append(batch)
        said(batch)

    source = FolderSource(folder, clock, files_most)
    with held(results):
        job = Streaming(
            BatchContext(session, results, clock, sieve=source.sieve),
            source,
            begun(results),
            counted,
            print,
            threading.Event(),
            KEPT,
        )
        stream(job, results, 1.0, once=True)
    return done


def flushed(folder: Path, flushes: Iterable[Sequence[Row]], number: int = 1) -> None:
    """A recording: one file a flush, or two where the hour changes."""
    for rows in flushes:
        number += len(write(folder, rows, number=number))


def by_time(rows: Iterable[Row], every_s: float) -> list[list[Row]]:
    """The rows as a recorder flushes them, which is not in step with ticks."""
    flushes: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        flushes.setdefault(int((row["at"].timestamp() + 1.7) // every_s), []).append(row)
    return list(flushes.values())


def rows_in(folder: Path, table: str) -> list[dict[str, Any]]:
    """A table as any reader finds it."""
    parts = [pq.ParquetFile(path).read() for path in current_files(folder, table)]
    rows: list[dict[str, Any]] = pa.concat_tables(parts).to_pylist() if parts else []
    return sorted(rows, key=lambda row: [str(row[name]) for name in KEYS[table]])


def main(folder: Path, results: Path) -> None:
    """See the module's text."""
    session = start_session(quick_settings())
    clock = SystemClock()
    source = FolderSource(folder, clock, 1)

    def said(done: CountedBatch) -> None:
        sys.stdout.write(f"{done.number}\n")
        sys.stdout.flush()

    with held(results):
        job = Streaming(
            BatchContext(session, results, clock, sieve=source.sieve),
            source,
            begun(results),
            said,
            print,
            threading.Event(),
            KEPT,
        )
        stream(job, results, 1.0, once=True)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
