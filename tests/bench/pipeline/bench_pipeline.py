"""The pipeline over millions of samples: rates, a whole backfill, and two queries next to DuckDB.

Both engines have two threads, read the same files, and keep nothing of what comes out.
The tables take minutes, so they are made once by default, and the queries are run some times.
By hand:

    python -m tests.bench.pipeline.bench_pipeline [--quick] [--samples N] [--runs N] [--tables N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.pipeline.result_columns import GAP_S, STALL_S
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from tests.support.bench.pipeline_load import Load, write_load
from tests.support.pipeline.spark import missing_java
from tests.support.waiting import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark]

SAMPLES, QUICK = 50_000_000, 5_000_000
RUNS = 3
TABLES = 1
BUCKET_S = 30

_ROLL_UP = f"""
    select rid, epoch_ms("at") // {BUCKET_S * 1000} as bucket, count(*) as n,
           min("at") as since, max("at") as until,
           min(log_end_offset) as first, max(log_end_offset) as last,
           max(lag_messages) as lag, max(follower_throttle_bytes_per_s) as throttle
    from samples group by rid, bucket
"""
_STALLS = f"""
    with wanting as (
        select *, (not in_isr or adding) and coalesce(lag_messages, 1) > 0 as wants from samples
    ), with_previous as (
        select *, lag("at") over replica as prev_at, lag(wants) over replica as prev_wants,
               lag(log_end_offset) over replica as prev_end
        from wanting window replica as (partition by rid order by "at")
    ), begun as (
        select *, not (coalesce(prev_wants, false)
                       and not coalesce(log_end_offset > prev_end, false)
                       and epoch_ms("at") - epoch_ms(prev_at) <= {GAP_S * 1000}) as begins
        from with_previous where wants
    ), in_islands as (
        select *, sum(begins::int) over (partition by rid order by "at") as island from begun
    )
    select rid, min("at") as start, max("at") as until, any_value(topic) as topic,
           any_value(partition) as partition, any_value(broker) as broker,
           arg_min(leader, "at") as leader, arg_min(lag_messages, "at") as lag_start,
           arg_max(lag_messages, "at") as lag_end, mode(cause) as cause,
           arg_min(operation_id, "at") as operation
    from in_islands group by rid, island
    having epoch_ms(max("at")) - epoch_ms(min("at")) >= {STALL_S * 1000}
"""


@dataclass(frozen=True, slots=True)
class Took:
    """How long some runs took."""

    seconds: Sequence[float]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def text(self, samples: int) -> str:
        """The times and the rate, for the person who reads the bench."""
        least, most = min(self.seconds), max(self.seconds)
        rate = samples / self.median_s
        times = f"{self.median_s:.1f} s ({least:.1f}-{most:.1f}, {len(self.seconds)} runs)"
        return f"{times:<34} {rate:>11,.0f} samples/s"


def timed(run: Callable[[], object], runs: int) -> Took:
    """Each of some runs; the first warms what it warms."""
    seconds = []
    for _ in range(runs):
        began = time.monotonic()
        run()
        seconds.append(time.monotonic() - began)
    return Took(seconds)


def noop(rows: DataFrame) -> None:
    """Work out all rows, and keep none."""
    rows.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True, slots=True)
class Bench:
    """Both engines, and a recording."""

    spark: SparkSession
    duck: Any
    folder: Path
    samples: int
    runs: int
    tables: int
    """So often are the tables made, and so often are the queries run in each engine."""

    @property
    def files(self) -> list[Path]:
        """Of its samples."""
        return sorted(self.folder.glob("replicas/*/*/*.parquet"))

    def rates(self) -> None:
        """The table `rates` of all, each row looked at."""
        from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
        from kshunt.backend.pipeline.kernels.quality import Checks
        from kshunt.backend.pipeline.spark.row_packing import of_files
        from kshunt.backend.pipeline.tables.rates import rows_of, unlooked

        parcels = of_files(self.spark, self.files, SAMPLES_SCHEMA)
        noop(rows_of(unlooked(parcels, Checks(0, 1 << 60, 0, 0, GAP_S * 1000))))

    def roll_up(self) -> DataFrame:
        """Buckets of 30 s of each replica."""
        from pyspark.sql import functions as F

        from kshunt.backend.pipeline.samples.replica_samples import read_samples

        bucket = F.floor(F.unix_millis("at") / F.lit(BUCKET_S * 1000)).alias("bucket")
        return (
            read_samples(self.spark, self.files)
            .groupBy("rid", bucket)
            .agg(
                F.count(F.lit(1)).alias("n"),
                F.min("at").alias("since"),
                F.max("at").alias("until"),
                F.min("log_end_offset").alias("first"),
                F.max("log_end_offset").alias("last"),
                F.max("lag_messages").alias("lag"),
                F.max("follower_throttle_bytes_per_s").alias("throttle"),
            )
        )

    def stalls(self) -> DataFrame:
        """The table `stalls`, of samples instead of rates."""
        from kshunt.backend.pipeline.kernels.stalls import RATES
        from kshunt.backend.pipeline.spark.row_packing import of_files
        from kshunt.backend.pipeline.tables.stalls import islands_of, rows_of

        return rows_of(islands_of(of_files(self.spark, self.files, RATES), 1 << 60))

    def by_duck(self, query: str) -> None:
        """The same by DuckDB, into a table that is forgotten."""
        files = [str(path) for path in self.files]
        self.duck.execute(f"create or replace temp view samples as from read_parquet({files})")
        self.duck.execute(f"create or replace temp table made as {query}")

    def backfill(self) -> None:
        """All tables, written."""
        from kshunt.backend.pipeline.jobs.backfill import backfill, check

        results = self.folder / "results"
        shutil.rmtree(results, ignore_errors=True)
        period = check(self.folder, None, None)
        clock = SystemClock()
        backfill(self.spark, self.folder, results, period, clock, lambda made: None)

    def report(self) -> None:
        """Run everything and print what was measured."""
        self._line("rates of all samples", timed(self.rates, self.tables))
        pairs: tuple[tuple[str, Callable[[], DataFrame], str], ...] = (
            ("30 s buckets", self.roll_up, _ROLL_UP),
            ("stalls", self.stalls, _STALLS),
        )
        for name, ours, query in pairs:
            spark = timed(lambda ours=ours: noop(ours()), self.runs)  # type: ignore[misc]
            duck = timed(partial(self.by_duck, query), self.runs)
            (rows,) = self.duck.execute("select count(*) from made").fetchone()
            self._line(f"{name} by Spark", spark)
            self._line(f"{name} by DuckDB", duck)
            ratio = spark.median_s / duck.median_s
            print(f"  {ratio:.1f} times DuckDB's; {rows:,} rows and {ours().count():,}", flush=True)
        self._line("a whole backfill", timed(self.backfill, self.tables))

    def _line(self, name: str, took: Took) -> None:
        load = os.getloadavg()[0]
        print(f"{name:<24} {took.text(self.samples)}   load {load:.1f}", flush=True)


def run(samples: int, runs: int, tables: int) -> None:
    """Make a recording, measure, and leave nothing behind."""
    load = Load.of(samples)
    with tempfile.TemporaryDirectory(prefix="kshunt-bench-") as name:
        folder = Path(name)
        write_load(folder, load)
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(
            f"\n{load.samples:,} samples, {size / load.samples:.1f} B each: {load.moving:,} "
            f"replicas move, {load.resting:,} rest; medians",
            flush=True,
        )
        session = start_session(PipelineSettings(master="local[2]"))
        try:
            with duckdb.connect(config={"threads": 2}) as duck:
                Bench(session, duck, folder, load.samples, runs, tables).report()
        finally:
            session.stop()


def test_samples_a_second() -> None:
    require(missing_java())
    run(SAMPLES, RUNS, TABLES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} samples")
    parser.add_argument("--samples", type=int, help=f"how many (default {SAMPLES:,})")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--tables", type=int, default=TABLES)
    options = parser.parse_args()
    samples = options.samples or (QUICK if options.quick else SAMPLES)
    run(samples, options.runs, options.tables)
