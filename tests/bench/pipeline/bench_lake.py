"""A folder of results over a week: bytes and files after compaction, and how fast it answers.

20,000 replicas, of which a hundredth is copied, are recorded for two hours, and a backfill makes
their results. A week is copies of the second hour, each of `FLUSHES` batches, as the streaming job
leaves them. `KSHUNT_LAKE_REPLICAS` changes how many replicas there are.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files
from kshunt.backend.domain.pipeline.result_columns import RATES, TABLES, ResultTable
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.jobs.backfill import Period, backfill
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.bench.pipeline_load import START_MS, Load, write_load
from tests.support.pipeline.spark import missing_java
from tests.support.waiting import require

pytestmark = [pytest.mark.bench, pytest.mark.spark]

REPLICAS: Final = int(os.environ.get("KSHUNT_LAKE_REPLICAS", "20000"))
HOURS: Final = 7 * 24
FLUSHES: Final = 20
"""Batches an hour in the copies. The job itself makes up to 720; more only takes longer here."""
SETTLED_MS: Final = 2 * HOUR_MS


def test_a_week_of_results(tmp_path: Path) -> None:
    require(missing_java())
    load = Load(REPLICAS // 100, REPLICAS - REPLICAS // 100, 2 * 3600)
    recording, made, lake = tmp_path / "recording", tmp_path / "made", tmp_path / "lake"
    write_load(recording, load)
    samples_bytes = total_bytes(recording) / 2
    session = start_session(PipelineSettings(master="local[2]"))
    try:
        period = Period(START_MS, START_MS + 2 * HOUR_MS)
        backfill(session, recording, made, period, SystemClock(), lambda done: None)
    finally:
        session.stop()
    hour_ms = START_MS + HOUR_MS
    of_hour = {table.name: rows_of_hour(made, table, hour_ms) for table in TABLES}
    began_s, files, before_bytes = time.monotonic(), 0, 0
    seconds: list[float] = []
    for number in range(HOURS):
        write_hour(lake, of_hour, hour_ms, number)
        files += len(list((lake).rglob("batch_id=*/*.parquet")))
        before_bytes += total_bytes(lake) if number == 0 else 0
        since_s = time.monotonic()
        compact(lake, hour_ms + (number + 1) * HOUR_MS)
        seconds.append(time.monotonic() - since_s)
    print(f"\n{REPLICAS:,} replicas, {HOURS} hours, {files:,} files of batches written")
    say_sizes(lake, samples_bytes, before_bytes)
    print(
        f"compaction of an hour: median {sorted(seconds)[HOURS // 2]:.1f} s, "
        f"most {max(seconds):.1f} s; the bench took {time.monotonic() - began_s:.0f} s"
    )
    ask(lake, hour_ms)


def rows_of_hour(made: Path, table: ResultTable, hour_ms: int) -> Any:
    files = [path for path in current_files(made, table.name) if hour_folder(hour_ms) in str(path)]
    rows = [pq.read_table(path, partitioning=None) for path in files]
    return pa.concat_tables(rows, promote_options="permissive") if rows else None


def write_hour(lake: Path, of_hour: dict[str, Any], first_ms: int, number: int) -> None:
    """The rows of the first hour, as if they were of a later one."""
    later = pa.scalar(timedelta(hours=number), pa.duration("us"))
    for name, rows in of_hour.items():
        if rows is None or not len(rows):
            continue
        moved = rows
        for place, field in enumerate(rows.schema):
            if pa.types.is_timestamp(field.type):
                times = pc.add(rows[field.name].cast(pa.timestamp("us", "UTC")), later)
                moved = moved.set_column(place, field.name, times)
        hour = hour_folder(first_ms + number * HOUR_MS)
        batches = min(FLUSHES, len(moved))
        for batch in range(batches):
            start, end = (len(moved) * n // batches for n in (batch, batch + 1))
            path = lake / name / hour / f"batch_id={number * FLUSHES + batch}" / "part-0.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(moved.slice(start, end - start), path, compression="zstd")


def compact(lake: Path, now_ms: int) -> None:
    done = maintain(lake, KeptDays(14, 730), lambda: now_ms)
    assert not done.problems


def say_sizes(lake: Path, samples_bytes: float, before_bytes: int) -> None:
    files = [path for table in TABLES for path in current_files(lake, table.name)]
    size = sum(path.stat().st_size for path in files)
    days = HOURS / 24
    print(f"files {len(files):,} (target 2,000 in 7 days); {size / 1e9:.2f} GB (target 10)")
    print(f"an hour before compaction {before_bytes / 1e6:.1f} MB, after {size / HOURS / 1e6:.1f}")
    for table in TABLES:
        paths = current_files(lake, table.name)
        some = sum(path.stat().st_size for path in paths)
        print(f"  {table.name:<18} {len(paths):>5} files {some / days / 1e6:>9.2f} MB a day")
    rates = sum(path.stat().st_size for path in current_files(lake, RATES.name)) / HOURS
    print(f"rates take {rates / samples_bytes:.2f} times the bytes of their samples")


def ask(lake: Path, first_ms: int) -> None:
    """What held operations up on one day, as a backend answers it when it is asked first."""
    results = Results(lake, SystemClock())
    day_ms = first_ms - first_ms % (24 * HOUR_MS) + 2 * 24 * HOUR_MS
    for words in ("first", "again"):
        since_s = time.monotonic()
        found = results.bottlenecks(day_ms, day_ms + 24 * HOUR_MS)
        seconds = time.monotonic() - since_s
        whole = "all of the day" if found.since_ms == day_ms else "a part of it"
        print(f"bottlenecks of a day, {words}: {len(found.rows)} in {seconds:.2f} s, {whole}")
    results.stop()
    since_s = time.monotonic()
    Results(lake, SystemClock()).tables()
    print(f"the backend's summary of all tables: {time.monotonic() - since_s:.2f} s")


def total_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
