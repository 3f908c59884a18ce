"""`kshunt pipeline backfill` as a process, on Spark Connect and on a cluster of two workers."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from typing import TYPE_CHECKING

import duckdb
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files, read_manifest
from kshunt.backend.domain.pipeline.result_columns import RATES, TABLES
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.jobs import backfill as backfill_module
from kshunt.backend.pipeline.jobs.backfill import MadeTable, backfill, check
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.pipeline.spark.session import SparkFailed
from tests.support.documents.printed import printed
from tests.support.pipeline.delivered import rows_in
from tests.support.pipeline.poisoned import path_of
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, time_of, write
from tests.support.pipeline.recorded_brokers import broker_sample, simulated_brokers, write_brokers
from tests.support.pipeline.spark import QUICK_JAVA, same
from tests.support.pipeline.standalone import standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DEADLINE_S = 600.0
CLASSIC, CONNECT, STANDALONE = "classic", "connect", "standalone"


@dataclass(frozen=True, slots=True)
class Done:
    """What backfills of one recording left: one here, and processes where Spark runs elsewhere."""

    samples: Path
    good: Sequence[Row]
    said: Sequence[MadeTable]
    processes: Mapping[str, CompletedProcess[str]]

    def results(self, name: str) -> Path:
        return self.samples / f"results-{name}"


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Two hours of which little was recorded: the end of one and the begin of the other."""
    folder = tmp_path_factory.mktemp("back{fill} [2]")
    good = [late(row) for row in simulated(seed=8, replicas=20, seconds=1000)]
    bad = [dict(good[0]), late(sample(7, 3, size_bytes=-4))]
    write(folder, [*good, *bad])
    path_of(folder, 50).write_bytes(b"")
    brokers = [late(row) for row in simulated_brokers(seed=8, brokers=4, seconds=1000)]
    write_brokers(folder, [*brokers, late(broker_sample(7, 4, log_bytes=-1))])
    # What was recorded is of a fixed day, so its beginning is named instead of two hours ago.
    names = {"/data/kshunt/prod": folder, "2h": time_of(START_MS).isoformat()}
    words = printed("docs/operating/pipeline.md", "kshunt pipeline backfill", names)
    command = [sys.executable, "-m", "kshunt", *words]
    said: list[MadeTable] = []
    with ExitStack() as stack:
        url = stack.enter_context(standalone_cluster(2, folder, java_options=QUICK_JAVA))
        begun = {
            name: stack.enter_context(backfilling(command, folder / f"results-{name}", *options))
            for name, options in {
                CONNECT: ("--remote", "local[2]"),
                STANDALONE: ("--master", url),
            }.items()
        }
        results = folder / f"results-{CLASSIC}"
        period = check(folder, None, None)
        backfill(spark, folder, results, period, SystemClock(), said.append)
        processes = {name: ended(process) for name, process in begun.items()}
    return Done(folder, good, said, processes)


@contextmanager
def backfilling(command: Sequence[str], results: Path, *options: str) -> Iterator[Popen[str]]:
    """A process that works, and does not outlast the tests."""
    with Popen(
        [*command, *options, "--results", str(results), "--memory", "1g"],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        # Spark's own switch for a Connect server on a port that is free, not on 15002.
        env={**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA, "SPARK_TESTING": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: Popen[str]) -> CompletedProcess[str]:
    """How it ended."""
    out, error = process.communicate(timeout=DEADLINE_S)
    return CompletedProcess(process.args, process.returncode, out, error)


def late(row: Row) -> Row:
    """Ten minutes before the hour ends, for what begins when it does."""
    later = timedelta(minutes=50)
    return row | {name: row[name] + later for name in ("at", "leader_at") if name in row}


@pytest.mark.parametrize("name", [CONNECT, STANDALONE])
def test_it_makes_every_table_and_says_so(done: Done, name: str) -> None:
    process = done.processes[name]
    assert process.returncode == 0, process.stderr
    for table in TABLES:
        assert f"\n{table.name} " in f"\n{process.stdout}"
    assert "1 dropped: unique" in process.stdout
    assert "1 quarantined: sizes_not_negative" in process.stdout
    assert "a file was set aside" in process.stdout
    assert "Exception" not in process.stderr
    # Some are made together; the first to end says so first.
    assert sorted(made.table for made in done.said) == sorted(table.name for table in TABLES)


def test_rates_are_those_of_the_reference(done: Done) -> None:
    found = rows_in(done.results(CLASSIC), "rates")
    found.sort(key=lambda row: (row["rid"], row["tick"]))
    expected = reference_rates(done.good)
    same(found, [{name: row[name] for name in RATES.names} for row in expected])
    (run,) = read_manifest(done.results(CLASSIC)).runs.values()
    assert run.samples_newest_ms is not None
    assert time_of(run.samples_newest_ms) == max(row["at"] for row in done.good)


@pytest.mark.parametrize("name", [CONNECT, STANDALONE])
def test_spark_elsewhere_makes_the_same_of_it(done: Done, name: str) -> None:
    keys = {
        "rates": ("rid", "tick"),
        "stalls": ("rid", "start"),
        "move_pairs": ("start", "source", "destination", "throttled"),
        "throttle_effect": ("start", "direction", "broker", "permitted_bytes_per_s"),
        "eta": ("rid", "tick"),
        "broker_load": ("start", "broker"),
        "quality": ("of", "expectation"),
        "quarantine": ("rid", "at"),
        "quarantine_brokers": ("broker", "at"),
        "quarantine_files": ("file",),
    }
    assert keys.keys() == {table.name for table in TABLES}
    for table, order in keys.items():
        classic, other = (rows_in(done.results(made), table, *order) for made in (CLASSIC, name))
        assert classic
        # When a run found a file is its own.
        for row in (*classic, *other):
            row.pop("found", None)
        same(other, classic)


def test_other_readers_find_the_columns_as_they_are_described(done: Done) -> None:
    for table in TABLES:
        # A pattern of DuckDB's has no way to say that a bracket is one.
        files = [str(path) for path in (done.results(CLASSIC) / table.name).rglob("*.parquet")]
        with duckdb.connect() as reader:
            found = reader.execute(f"describe from read_parquet({files})").fetchall()
            rows = reader.execute(f"select count(*) from read_parquet({files})").fetchall()
        names = [name for name, *_ in found if name not in ("date", "hour", "run")]
        assert names == list(table.names)
        assert rows == [(len(rows_in(done.results(CLASSIC), table.name)),)]


def test_an_hour_alone_is_what_it_was_in_the_whole(
    spark: SparkSession, done: Done, tmp_path: Path
) -> None:
    second = START_MS + HOUR_MS
    period = check(done.samples, second, second + 1)
    assert (period.start_ms, period.end_ms) == (second, second + HOUR_MS)
    backfill(spark, done.samples, tmp_path, period, SystemClock(), lambda made: None)
    assert {path.parent.parent.name for path in current_files(tmp_path, "rates")} == {"hour=04"}
    whole = rows_in(done.results(CLASSIC), "rates", "rid", "tick")
    same(
        rows_in(tmp_path, "rates", "rid", "tick"),
        [row for row in whole if row["at"] >= time_of(second)],
    )
    assert whole[0]["at"] < time_of(second)
    # Spark reads what it has written, folder by folder.
    hour = done.results(CLASSIC) / "rates" / hour_folder(second)
    rows = spark.read.schema(struct_of(RATES.columns)).parquet(literal(hour)).count()
    assert rows == len([row for row in whole if row["at"] >= time_of(second)])


def test_a_table_that_fails_ends_those_that_are_made_with_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, simulated(seed=3, replicas=4, seconds=60))
    results, period = tmp_path / "results", check(tmp_path, None, None)
    backfill(spark, tmp_path, results, period, SystemClock(), lambda made: None)
    former = rows_in(results, "rates")

    def never_ends(batches: Iterable[object]) -> Iterator[object]:
        threading.Event().wait(DEADLINE_S)
        yield from batches

    def fails(batches: Iterable[object]) -> Iterator[object]:
        raise ValueError("the forecast failed")

    for name, work in {"move_pairs": never_ends, "eta": fails}.items():
        monkeypatch.setattr(backfill_module, name, through(work, getattr(backfill_module, name)))
    said: list[MadeTable] = []
    with pytest.raises(SparkFailed, match="former results of that time stay valid"):
        backfill(spark, tmp_path, results, period, SystemClock(), said.append)
    assert not {"move_pairs", "eta"} & {made.table for made in said}
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert rows_in(results, "rates") == former


def through(
    work: Callable[[Iterable[object]], Iterator[object]], table: Callable[..., DataFrame]
) -> Callable[..., DataFrame]:
    """A table whose rates pass through some work first."""
    return lambda rates, *others: table(rates.mapInArrow(work, rates.schema), *others)
