"""Streaming makes of samples what a backfill makes of them, however it is cut and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files, read_manifest
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    EFFECT_S,
    PAIR_S,
    RATES,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.batches.holding import CountedBatch, begun, held
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.jobs.stream import make_owed
from kshunt.backend.pipeline.jobs.stream_sources import FolderSource
from kshunt.backend.pipeline.results.result_runs import ResultsBusy, new_run
from kshunt.backend.pipeline.results.stream_state import STREAM, Meta, StreamBatch, newest
from kshunt.backend.telemetry.recording.retention import Retention
from tests.support.pipeline import delivered
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import (
    START_MS,
    Row,
    sample,
    simulated,
    throttled,
    time_of,
)
from tests.support.pipeline.recorded_brokers import simulated_brokers, write_brokers
from tests.support.pipeline.spark import missing_java, same
from tests.support.pipeline.streamed import KEPT, by_time, flushed, rows_in, streamed
from tests.support.shrink.job import of_session
from tests.support.waiting import require, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("KSHUNT_KILLS", "2"))
DEADLINE_S = 600.0
CLOSED_S = 62
"""The stream makes an interval this long after the interval's end."""
INTERVALS = {
    THROTTLE_EFFECT.name: ("start", "direction", "broker", "permitted_bytes_per_s"),
    BROKER_LOAD.name: ("start", "broker"),
}
"""Tables that are made by intervals of all that came, and their keys."""


@dataclass(frozen=True, slots=True)
class Both:
    """One recording, and what a stream and a backfill made of it."""

    samples: Path
    rows: Sequence[Row]
    streamed: Path
    filled: Path
    done: Sequence[CountedBatch]


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Ten minutes around the end of an hour, in batches of some files each."""
    folder = tmp_path_factory.mktemp("st{re}am [2]")
    rows = [later(row, minutes=52) for row in throttled(seed=21, replicas=16, seconds=900)]
    flushed(folder, by_time(rows, 40))
    brokers = simulated_brokers(seed=9, brokers=3, seconds=900, every_s=20)
    write_brokers(folder, [later(row, minutes=52) for row in brokers])
    results, filled = folder / "streamed", folder / "filled"
    done = streamed(spark, folder, results, files_most=4)
    backfill(spark, folder, filled, check(folder, None, None), SystemClock(), lambda made: None)
    return Both(folder, rows, results, filled, done)


def later(row: Row, *, minutes: float) -> Row:
    by = timedelta(minutes=minutes)
    return row | {name: row[name] + by for name in ("at", "leader_at") if name in row}


def test_rates_are_those_of_a_backfill_and_of_the_reference(both: Both) -> None:
    assert len(both.done) > 4
    found = rows_in(both.streamed, "rates")
    same(found, rows_in(both.filled, "rates"))
    expected = sorted(reference_rates(both.rows), key=lambda r: (str(r["rid"]), str(r["tick"])))
    same(found, [{name: row[name] for name in RATES.names} for row in expected])
    hours = {path.parent.parent.name for path in current_files(both.streamed, "rates")}
    assert hours == {"hour=03", "hour=04"}


def test_stalls_are_those_of_a_backfill(both: Both) -> None:
    found = rows_in(both.streamed, "stalls")
    assert any(row["open"] for row in found)
    same(found, rows_in(both.filled, "stalls"))


def test_intervals_that_are_over_are_those_of_a_backfill(both: Both) -> None:
    found = rows_in(both.streamed, "move_pairs")
    last = max(row["at"] for row in both.rows) - timedelta(seconds=PAIR_S + CLOSED_S)
    expected = [row for row in rows_in(both.filled, "move_pairs") if row["start"] <= last]
    assert found
    same(found, expected)


def test_effects_and_loads_that_are_over_are_those_of_a_backfill(both: Both) -> None:
    newest = max(row["at"] for row in both.rows)
    over = {
        THROTTLE_EFFECT.name: newest - timedelta(seconds=EFFECT_S + CLOSED_S),
        BROKER_LOAD.name: time_of(START_MS + HOUR_MS - 1),
    }
    for table, order in INTERVALS.items():
        found = delivered.rows_in(both.streamed, table, *order)
        assert found
        # An interval that begins late is over when its five minutes are.
        last = max(row["start"] for row in found)
        assert last <= over[table] + timedelta(seconds=EFFECT_S)
        filled = delivered.rows_in(both.filled, table, *order)
        same(found, [row for row in filled if row["start"] <= last])


def test_what_is_odd_is_counted_as_often(both: Both) -> None:
    # A stream does not compare samples of brokers with what is expected of them.
    quality = [row for row in rows_in(both.filled, "quality") if row["of"] != "brokers"]
    counted = {row["expectation"]: 0 for row in quality}
    for row in rows_in(both.streamed, "quality"):
        counted[row["expectation"]] = counted.get(row["expectation"], 0) + row["violations"]
    assert counted.pop("in_time") == counted.pop("there") == 0
    # What is not closed yet has not been compared with what came before it.
    expected = {row["expectation"]: row["violations"] for row in quality}
    assert counted["log_grows"] > 0
    assert all(expected[name] - 2 <= n <= expected[name] for name, n in counted.items())


# What comes late, twice, or from a clock that was set


@dataclass(frozen=True, slots=True)
class At:
    """A clock that always shows the same time."""

    ms: int

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return 0.0

    async def wait_s(self, seconds: float) -> None:
        raise AssertionError


def test_late_rows_are_set_aside_and_doubled_ones_count_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = [sample(t, t * 10) for t in (0, 4, 6, 11, 13)]
    # 13 is in a tick that is not closed then, 4 in one that is; 2 comes too late, 14 does not.
    second = [sample(t, t * 10) for t in (13, 4, 2, 14, 21)]
    resting = [sample(9, 5, rid=2), sample(26, 5, rid=2)]
    flushed(tmp_path, [first, [*second, resting[0]], [resting[1]]])
    streamed(spark, tmp_path, tmp_path / "results", files_most=1)
    kept = [*(sample(t, t * 10) for t in (0, 4, 6, 11, 13, 14, 21)), *resting]
    expected = sorted(reference_rates(kept), key=lambda r: (str(r["rid"]), str(r["tick"])))
    same(
        rows_in(tmp_path / "results", "rates"),
        [{name: row[name] for name in RATES.names} for row in expected],
    )
    late = rows_in(tmp_path / "results", "quarantine")
    assert [(row["at"], row["reasons"]) for row in late] == [
        (sample(t)["at"], "in_time") for t in (2, 4)
    ]
    counts = violations(tmp_path / "results")
    assert (counts["in_time"], counts["unique"]) == (2, 1)


def test_rows_ahead_of_the_clock_wait_and_move_nothing(spark: SparkSession, tmp_path: Path) -> None:
    clock = At(START_MS + 12_000)
    ahead = [sample(t, t * 10, rid=2) for t in (100, 105)]
    now = [sample(t, t * 10, rid=r) for t in (0, 5, 10) for r in (1, 2)]
    flushed(tmp_path, [[*now, *ahead]])
    results = tmp_path / "results"
    streamed(spark, tmp_path, results, clock=clock)
    meta = newest(results)
    assert meta is not None
    assert (meta.newest_ms, meta.closed_ms) == (START_MS + 10_000, START_MS + 5_000)
    # Set right, the clock comes there once more: nothing of that is late.
    right = [sample(t, t * 10, rid=r) for t in (15, 20, 104) for r in (1, 2)]
    flushed(tmp_path, [right], number=2)
    streamed(spark, tmp_path, results, clock=At(START_MS + 120_000))
    expected = reference_rates([*now, *ahead, *right])
    expected.sort(key=lambda r: (str(r["rid"]), str(r["tick"])))
    same(
        rows_in(results, "rates"),
        [{name: row[name] for name in RATES.names} for row in expected],
    )


def test_bad_rows_are_set_aside_with_their_reasons(spark: SparkSession, tmp_path: Path) -> None:
    bad = [sample(7, 3, size_bytes=-4), sample(8, -3), sample(-90 * 86_400, 1)]
    flushed(tmp_path, [[sample(0, 0), *bad[:2], sample(9, 9)], bad[2:]])
    streamed(spark, tmp_path, tmp_path / "results")
    reasons = [row["reasons"] for row in rows_in(tmp_path / "results", "quarantine")]
    assert sorted(reasons) == [
        "sizes_not_negative",
        "sizes_not_negative,offsets_not_negative",
        "time_plausible",
    ]
    assert len(rows_in(tmp_path / "results", "rates")) == 2


# Whose an hour is


def test_a_backfill_leaves_the_hours_of_a_stream_alone(tmp_path: Path) -> None:
    closed = START_MS + HOUR_MS + 60_000
    with held(tmp_path):
        begun(tmp_path)
        remembered(tmp_path, Meta(0, closed_ms=closed))
        with (
            pytest.raises(ResultsBusy, match=r"still writes to .*, from the hour 2026-11-22 03:00"),
            new_run(tmp_path, START_MS, START_MS + HOUR_MS, 1),
        ):
            pass
        with new_run(tmp_path, START_MS - HOUR_MS, START_MS, 1):
            pass
        with pytest.raises(ResultsBusy, match="Another stream"), held(tmp_path):
            pass
    with new_run(tmp_path, START_MS, START_MS + HOUR_MS, 1):
        pass


def remembered(results: Path, meta: Meta) -> None:
    """Let a batch have left this."""
    batch = StreamBatch.begun(results, meta.batch)
    batch.state.mkdir()
    batch.publish(meta, Meta())


def test_what_a_killed_batch_left_is_removed_and_all_else_stays(tmp_path: Path) -> None:
    begun(tmp_path)
    hour = tmp_path / "rates" / hour_folder(START_MS)
    remembered(tmp_path, Meta(4, closed_ms=START_MS, open_hours={"rates": hour_folder(START_MS)}))
    for part in ("batch_id=4", "batch_id=5", "batch_id=open"):
        (hour / part).mkdir(parents=True)
    other = tmp_path / "stalls" / hour_folder(START_MS) / "batch_id=open"
    other.mkdir(parents=True)
    (tmp_path / ".batch-5-abc").mkdir()
    assert begun(tmp_path).batch == 4
    assert sorted(path.name for path in hour.iterdir()) == ["batch_id=4", "batch_id=open"]
    assert not other.exists()
    assert not (tmp_path / ".batch-5-abc").exists()


def test_a_stream_that_is_forgotten_goes_on_after_its_last_number(tmp_path: Path) -> None:
    (tmp_path / "rates" / hour_folder(START_MS) / "batch_id=7").mkdir(parents=True)
    assert begun(tmp_path).batch == 7
    # Whatever its first batch leaves, before it counts, is not taken for the former stream's.
    (tmp_path / "rates" / hour_folder(START_MS) / "batch_id=8").mkdir()
    assert begun(tmp_path).batch == 7
    assert not (tmp_path / "rates" / hour_folder(START_MS) / "batch_id=8").exists()


def test_hours_that_were_put_together_unseen_are_made_by_a_backfill(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [sample(t, t * 10, rid=r) for r in (1, 2) for t in range(0, 9000, 300)]
    seen = [row for row in rows if row["at"] < time_of(START_MS + 1_800_000)]
    results, said = tmp_path / "results", list[str]()
    source = FolderSource(tmp_path, SystemClock())
    flushed(tmp_path, [seen])
    make_owed(spark, source, results, SystemClock(), said.append, KEPT)
    streamed(spark, tmp_path, results)
    flushed(tmp_path, [[row for row in rows if row not in seen]], number=2)
    Retention(tmp_path, 7, 0.0).put_together(START_MS + 2 * HOUR_MS)
    make_owed(spark, source, results, SystemClock(), said.append, KEPT)
    assert len(said) == 2
    assert read_manifest(results).hours["rates"].keys() == {
        hour_folder(START_MS),
        hour_folder(START_MS + HOUR_MS),
    }
    streamed(spark, tmp_path, results)
    assert len(rows_in(results, "rates")) == len(rows)
    make_owed(spark, source, results, SystemClock(), said.append, KEPT)
    meta = newest(results)
    assert meta is not None
    # What was pending when the stream ended lies in an hour that a backfill has made since.
    assert len(said) == (3 if meta.owed else 2)


# Kills


def test_a_stream_that_is_killed_again_and_again_leaves_what_another_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The test kills the first job as its first batch begins. It kills each other job in the middle
    of a later batch, which has written its rates and has not said that it counts."""
    require(missing_java())
    rows = simulated(seed=5, replicas=6, seconds=1400)
    flushed(tmp_path, by_time(rows, 1400 / (4 * KILLS)))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    jobs = [kill_in_batch(tmp_path, killed, after=0, written="")]
    for _ in range(KILLS - 1):
        jobs.append(kill_in_batch(tmp_path, killed, after=2, written=STREAM))
    # Workers write for a moment yet; what they leave, the next job that begins removes.
    wait_until(lambda: not any(map(of_session, jobs)), DEADLINE_S, "all of the jobs has ended")
    left = newest(killed)
    assert left is not None
    assert left.batch >= 2 * (KILLS - 1) - 1
    streamed(spark, tmp_path, killed, files_most=3)
    streamed(spark, tmp_path, whole)
    for table in ("rates", "stalls", "move_pairs"):
        same(rows_in(killed, table), rows_in(whole, table))
    expected = sorted(reference_rates(rows), key=lambda r: (str(r["rid"]), str(r["tick"])))
    same(
        rows_in(killed, "rates"),
        [{name: row[name] for name in RATES.names} for row in expected],
    )
    counts = [
        {r["expectation"]: r["violations"] for r in rows_in(p, "quality")} for p in (killed, whole)
    ]
    assert counts[0] == counts[1]
    assert [path.name for path in killed.glob(".batch-*")] == []


def violations(results: Path) -> dict[str, int]:
    return {row["expectation"]: row["violations"] for row in rows_in(results, "quality")}


def process(samples: Path, results: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.pipeline.streamed", str(samples), str(results)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def kill_in_batch(samples: Path, results: Path, *, after: int, written: str) -> int:
    """Kill a job, once that many batches of its own count, in a batch that has written this.

    Its session is told: what it has started outlives it for a moment.
    """
    former = set(results.glob(".batch-*"))
    with process(samples, results) as job:
        assert job.stdout is not None
        for _ in range(after):
            assert job.stdout.readline(), "it ended before it was killed"
        wait_until(
            lambda: any((path / written).exists() for path in begun_since(results, former)),
            DEADLINE_S,
            "a batch is under way",
        )
        job.kill()
    assert job.returncode == -signal.SIGKILL
    assert begun_since(results, former), "it was killed between two batches"
    return job.pid


def begun_since(results: Path, former: set[Path]) -> set[Path]:
    """Batches that write aside, but for those of a job that was killed earlier."""
    return set(results.glob(".batch-*")) - former
