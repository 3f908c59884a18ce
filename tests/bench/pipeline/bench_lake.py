"""The life of a folder of results on a simulated clock: files and bytes by day, and its answers.

Replicas, of which a hundredth is copied, are recorded for two hours, and the thread of a backend
makes their results. Each hour of the week is a copy of the second one, in `FLUSHES` batches, as a
job leaves them; then the job's maintenance of that hour runs. `KSHUNT_LAKE_REPLICAS` says how many
replicas there are, and `KSHUNT_LAKE_DAYS` how many days. The default is a tenth of the target of
20,000, which takes some minutes; rows of a table grow with the replicas, so bytes do too.
Files and bytes are drawn by day: with more than 14 days the rows that expire are seen to go.

At last a backend of its own process serves the lake. It is asked over HTTP which broker was the
bottleneck on Tuesday, once after it has started and `REQUESTS` times after that.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files
from kshunt.backend.domain.pipeline.result_columns import RATES, TABLES, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import ROLL_UPS
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.domain.text.axes import Unit
from kshunt.backend.domain.text.plots import Series, plot_lines
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.pipeline.light.light_job import LightJob
from kshunt.backend.pipeline.reports.week_results import read_week
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.bench.pipeline_load import START_MS, Load, write_load
from tests.support.embedded.background import running
from tests.support.serving import serving

pytestmark = pytest.mark.bench

REPLICAS: Final = int(os.environ.get("KSHUNT_LAKE_REPLICAS", "2000"))
TARGET_REPLICAS: Final = 20_000
HOURS: Final = 24 * int(os.environ.get("KSHUNT_LAKE_DAYS", "7"))
FLUSHES: Final = 20
"""Batches an hour in the copies. The job itself makes up to 720; more only takes longer here."""
REQUESTS: Final = 10
KEPT: Final = KeptDays(14, 730)
FIRST_MS: Final = START_MS - START_MS % DAY_MS + DAY_MS
"""When the copies begin: a Monday."""


@dataclass(frozen=True, slots=True)
class Day:
    """The folder of results at the end of a day."""

    number: int
    files: int
    bytes: int
    rates_bytes: int


class WeekClock(SystemClock):
    """The simulated time."""

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


def test_a_week_of_results(tmp_path: Path) -> None:
    load = Load(max(1, REPLICAS // 100), REPLICAS - REPLICAS // 100, 2 * 3600 + 600)
    recording, made, lake = tmp_path / "recording", tmp_path / "made", tmp_path / "lake"
    write_load(recording, load)
    clock = WeekClock(START_MS + load.seconds * 1000)
    # Nothing is compacted here: the hour is copied as the job has left it.
    job = LightJob(recording, made, KEPT, clock)
    job.turn()
    job.release()
    hour_ms = START_MS + HOUR_MS
    of_hour = {table.name: rows_of_hour(made, table, hour_ms) for table in TABLES}
    sampled = sum(
        path.stat().st_size for path in (recording / "replicas" / hour_folder(hour_ms)).iterdir()
    )
    print(f"\n{REPLICAS:,} replicas, {HOURS // 24} days; the target's {TARGET_REPLICAS:,} are")
    print(f"{TARGET_REPLICAS / REPLICAS:g} times the replicas. An hour of samples: {size(sampled)}")
    began_s, seconds, days = time.monotonic(), list[float](), list[Day]()
    for number in range(HOURS):
        clock.at_ms = FIRST_MS + (number + 1) * HOUR_MS
        write_hour(lake, of_hour, hour_ms, number)
        if number == 0:
            say_tables("the first hour before compaction", lake, 1)
        since_s = time.process_time()
        assert not maintain(lake, KEPT, clock.now_ms).problems
        seconds.append(time.process_time() - since_s)
        if number % 24 == 23:
            days.append(say_day(lake, number // 24 + 1))
    draw_days(days)
    say_tables("the whole, an hour", lake, HOURS)
    rates = bytes_of(lake, RATES.name) / HOURS
    print(f"rates take {rates / sampled:.2f} times the bytes of their samples (target 1.5)")
    print(
        f"maintenance of an hour: median {sorted(seconds)[HOURS // 2]:.2f} s of CPU, "
        f"most {max(seconds):.2f}; the week took {time.monotonic() - began_s:.0f} s"
    )
    ask(lake, clock)
    ask_over_http(lake, tmp_path)
    write_report(lake, recording)


def rows_of_hour(made: Path, table: ResultTable, hour_ms: int) -> Any:
    files = [path for path in current_files(made, table.name) if hour_folder(hour_ms) in str(path)]
    rows = [pq.read_table(path, partitioning=None) for path in files]
    return pa.concat_tables(rows, promote_options="permissive") if rows else None


def write_hour(lake: Path, of_hour: dict[str, Any], first_ms: int, number: int) -> None:
    """The rows of the copied hour, as if they were of a later one."""
    later = pa.scalar(timedelta(milliseconds=FIRST_MS - first_ms + number * HOUR_MS))
    for name, rows in of_hour.items():
        if rows is None or not len(rows):
            continue
        moved = rows
        for place, field in enumerate(rows.schema):
            if pa.types.is_timestamp(field.type):
                times = pc.add(rows[field.name].cast(pa.timestamp("us", "UTC")), later)
                moved = moved.set_column(place, field.name, times)
        hour = hour_folder(FIRST_MS + number * HOUR_MS)
        batches = min(FLUSHES, len(moved))
        for batch in range(batches):
            start, end = (len(moved) * n // batches for n in (batch, batch + 1))
            path = lake / name / hour / f"batch_id={number * FLUSHES + batch}" / "part-0.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(moved.slice(start, end - start), path, compression="snappy")


def tables_of(lake: Path) -> list[str]:
    return sorted(path.name for path in lake.iterdir() if path.is_dir() and path.name[0] != ".")


def bytes_of(lake: Path, table: str) -> int:
    return sum(path.stat().st_size for path in current_files(lake, table))


def say_day(lake: Path, day: int) -> Day:
    names = tables_of(lake)
    files = sum(len(current_files(lake, name)) for name in names)
    used = sum(bytes_of(lake, name) for name in names)
    times = TARGET_REPLICAS / REPLICAS
    print(
        f"day {day}: {files:>6,} files {size(used)}; {size(used * times)} at the target's "
        "replicas (target in 7 days: 2,000 files, 10 GB)"
    )
    return Day(day, files, used, bytes_of(lake, RATES.name))


def draw_days(days: list[Day]) -> None:
    """Files, bytes of all tables and bytes of `rates` at the end of each day."""
    ends = [float(one.number) for one in days]
    ticks = [(end, f"day {end:.0f}") for end in ends if end % 7 == 0 or end == 1]
    plots: dict[str, tuple[Unit, list[float]]] = {
        "files": (Unit.COUNT, [float(one.files) for one in days]),
        "bytes": (Unit.BYTES, [float(one.bytes) for one in days]),
        "bytes of rates": (Unit.BYTES, [float(one.rates_bytes) for one in days]),
    }
    for title, (unit, values) in plots.items():
        print(
            "\n".join([f"{title} by day", *plot_lines(ends, [Series(values)], unit, ticks, 78, 12)])
        )


def say_tables(title: str, lake: Path, hours: int) -> None:
    print(f"{title}:")
    for name in tables_of(lake):
        files = current_files(lake, name)
        rows = sum(pq.read_metadata(path).num_rows for path in files)
        print(
            f"  {name:<20} {len(files):>6,} files {rows / hours:>10,.0f} rows "
            f"{size(bytes_of(lake, name) / hours)}"
        )


def size(count: float) -> str:
    return f"{count / 1e6:,.2f} MB"


def ask(lake: Path, clock: WeekClock) -> None:
    """What held operations up on Tuesday, as a backend answers it when it is asked first."""
    results = Results(lake, clock)
    tuesday_ms = FIRST_MS + DAY_MS
    for words in ("first", "again"):
        since_s = time.monotonic()
        found = results.bottlenecks(tuesday_ms, tuesday_ms + DAY_MS)
        seconds = time.monotonic() - since_s
        whole = "all of the day" if found.since_ms == tuesday_ms else "a part of it"
        print(f"bottlenecks of Tuesday, {words}: {len(found.rows)} in {seconds:.3f} s, {whole}")
    for words in ("first", "again"):
        since_s = time.monotonic()
        _, history = results.transfer_history(FIRST_MS, 300)
        seconds = time.monotonic() - since_s
        whole = "all of it" if history.since_ms in (None, FIRST_MS) else "a part of it"
        print(f"lag of the whole time, {words}: {len(history.points)} in {seconds:.3f} s, {whole}")
    results.stop()
    since_s = time.monotonic()
    Results(lake, clock).tables()
    print(f"the backend's summary of all tables: {time.monotonic() - since_s:.2f} s")


def ask_over_http(lake: Path, folder: Path) -> None:
    """The same by a backend's API: the time from the question to the rows, in a client."""
    files = [path for name in tables_of(lake) for path in current_files(lake, name)]
    used = sum(path.stat().st_size for path in files)
    tuesday = datetime.fromtimestamp((FIRST_MS + DAY_MS) / 1000, UTC).date()
    seconds: list[float] = []
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serving(cluster.bootstrap_servers, folder, "--results", str(lake)) as address,
        BackendClient(address) as client,
    ):
        # What a client does once is not part of an answer.
        assert client.pipeline.status().tables
        for _ in range(1 + REQUESTS):
            since_s = time.monotonic()
            found = client.pipeline.bottlenecks(day=tuesday)
            seconds.append(time.monotonic() - since_s)
            assert found.rows
            assert found.since_ms == FIRST_MS + DAY_MS
    later = seconds[1:]
    print(
        f"bottlenecks of Tuesday over HTTP, of {len(files):,} files and {size(used)}: first "
        f"{seconds[0]:.3f} s, then the median of {REQUESTS}: {median(later):.3f} s, "
        f"most {max(later):.3f} (target 1)"
    )


def write_report(lake: Path, recording: Path) -> None:
    """The report of the week: from roll-ups, and from rows once they are taken away."""
    week = Week.at(FIRST_MS)
    for words in ("from roll-ups", "from rows"):
        since_s = time.monotonic()
        material = read_week(week, recording, lake, None)
        seconds = time.monotonic() - since_s
        hours = len(material.rates.hours)
        print(f"a report of the week, {words}: {hours} hours are read in {seconds:.2f} s")
        for one in ROLL_UPS:
            for table in one.tables:
                shutil.rmtree(lake / table.name, ignore_errors=True)
