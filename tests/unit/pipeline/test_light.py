"""Results on one thread of a backend, without Spark: what a batch makes, and whose turn it is."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files, hour_folders
from kshunt.backend.domain.pipeline.delivered import RunsAs
from kshunt.backend.domain.pipeline.result_columns import RATES, STALLS
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.batches.holding import begun, held
from kshunt.backend.pipeline.light.light_job import (
    ASIDE_S,
    EVERY_S,
    FILES_MOST_HERE,
    REPLICAS_MOST,
    LightPipeline,
)
from kshunt.backend.pipeline.results.result_runs import ResultsBusy, new_run
from kshunt.backend.pipeline.results.stream_state import (
    VERSIONS_READ,
    StreamState,
    newest,
    state_folder,
)
from kshunt.backend.telemetry.recording.retention import Retention
from tests.support.clocks import StoppedClock
from tests.support.pipeline.delivered import by_every_value
from tests.support.pipeline.light import job_of, made
from tests.support.pipeline.poisoned import poison
from tests.support.pipeline.rates_reference import reference_rates, reference_stalls
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, throttled, time_of
from tests.support.pipeline.spark import same
from tests.support.pipeline.streamed import by_time, flushed, rows_in
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
KILLED_IN = 1
"""The second batch: there is a state before it, and samples after it."""


def in_order(rates: Sequence[Row]) -> list[dict[str, Any]]:
    """Rates of the reference, as `rows_in` sorts them."""
    rows = sorted(rates, key=lambda row: [str(row["rid"]), str(row["tick"])])
    return [{name: row[name] for name in RATES.names} for row in rows]


# What it makes


def test_rates_and_stalls_are_those_of_the_reference_however_samples_are_cut(
    tmp_path: Path,
) -> None:
    rows = throttled(seed=3, replicas=8, seconds=600)
    flushed(tmp_path, by_time(rows, 23))
    made(tmp_path, tmp_path / "results", files_most=3)
    expected = reference_rates(rows)
    same(rows_in(tmp_path / "results", "rates"), in_order(expected))
    columns = ("rid", "start", "end", "open", "cause")
    stalls = rows_in(tmp_path / "results", STALLS.name)
    assert stalls
    assert {tuple(row[name] for name in columns) for row in stalls} == {
        stall[: len(columns)] for stall in reference_stalls(expected)
    }


def test_results_need_no_spark() -> None:
    look = (
        "import sys; import kshunt.backend.pipeline.light.light_job; "
        "print([n for n in ('pyspark', 'py4j', 'pandas', 'duckdb') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_late_rows_are_set_aside_and_doubled_ones_count_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = [sample(t, t * 10) for t in (0, 4, 6, 11, 13)]
    second = [sample(t, t * 10) for t in (13, 4, 2, 14, 21)]
    flushed(tmp_path, [first, second])
    made(tmp_path, tmp_path / "results", files_most=1)
    kept = [sample(t, t * 10) for t in (0, 4, 6, 11, 13, 14, 21)]
    same(rows_in(tmp_path / "results", "rates"), in_order(reference_rates(kept)))
    late = rows_in(tmp_path / "results", "quarantine")
    assert [(row["at"], row["reasons"]) for row in late] == [
        (sample(t)["at"], "in_time") for t in (2, 4)
    ]
    assert "2 samples arrived too late" in caplog.text


def test_samples_of_an_open_tick_count_after_a_stop_of_days(tmp_path: Path) -> None:
    rows = [sample(t, t * 10) for day in (0, 3) for t in range(day * 86_400, day * 86_400 + 60, 4)]
    flushed(tmp_path, [rows[:15], rows[15:]])
    made(tmp_path, tmp_path / "results", files_most=1)
    same(rows_in(tmp_path / "results", "rates"), in_order(reference_rates(rows)))
    assert rows_in(tmp_path / "results", "quarantine") == []


def test_files_that_cannot_be_used_are_set_aside_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flushed(tmp_path, [[sample(t, t * 10) for t in range(0, 60, 5)]])
    faults = poison(tmp_path, 2)
    made(tmp_path, tmp_path / "results")
    assert len(rows_in(tmp_path / "results", "rates")) == 12
    counted = {row["expectation"]: row for row in rows_in(tmp_path / "results", "quality")}
    assert counted["readable"]["violations"] == len(faults)
    assert caplog.text.count("A file of samples was set aside") == len(faults)
    made(tmp_path, tmp_path / "results")
    assert caplog.text.count("A file of samples was set aside") == len(faults)


def test_settled_hours_are_compacted(tmp_path: Path) -> None:
    rows = [sample(t, t * 10, rid=r) for r in (1, 2) for t in range(0, 4 * 3600, 60)]
    flushed(tmp_path, by_time(rows, 600))
    made(tmp_path, tmp_path / "results", files_most=1)
    files = {hour.name: 0 for hour in hour_folders(tmp_path / "results" / "rates")}
    for path in current_files(tmp_path / "results", "rates"):
        files["/".join(path.parts[-4:-2])] += 1
    assert files[hour_folder(START_MS)] == 1
    assert max(files.values()) > 1
    same(rows_in(tmp_path / "results", "rates"), in_order(reference_rates(rows)))


# Kills


def killed_and_resumed(tmp_path: Path, *, first: int, by: int, jobs: int) -> list[str]:
    """Kill jobs at steps of their second batch, and let others continue; how each job ended."""
    rows = throttled(seed=8, replicas=6, seconds=330)
    flushed(tmp_path, by_time(rows, 100))
    folders = [tmp_path / f"results {number}" for number in range(jobs)]
    command = [sys.executable, "-m", "tests.support.pipeline.killed.light", str(tmp_path)]
    command += [*map(str, (KILLED_IN, first, by)), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made(tmp_path, tmp_path / "whole", files_most=1)
    for folder in folders:
        made(tmp_path, folder, files_most=1)
        for table in ("rates", "stalls", "move_pairs", "quality", "eta"):
            same(by_all(folder, table), by_all(tmp_path / "whole", table))
        assert [*folder.glob(".batch-*"), *folder.glob("*/*/*/.*")] == []
    same(rows_in(tmp_path / "whole", "rates"), in_order(reference_rates(rows)))
    return done.stdout.split()


def by_all(folder: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table, in an order that each of their values is part of."""
    return by_every_value(rows_in(folder, table) if table != "eta" else eta_in(folder))


def eta_in(folder: Path) -> list[dict[str, Any]]:
    parts = [pq.ParquetFile(path).read() for path in current_files(folder, "eta")]
    rows: list[dict[str, Any]] = pa.concat_tables(parts).to_pylist() if parts else []
    return rows


def test_a_job_that_is_killed_leaves_what_another_does(tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, first=12, by=25, jobs=2) == ["killed"] * 2


@pytest.mark.slow
def test_a_job_that_is_killed_at_many_steps_leaves_what_another_does(tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, first=0, by=2, jobs=35) == ["killed"] * 35


# Whose turn it is


def pipeline_of(tmp_path: Path) -> LightPipeline:
    """It has not begun, and its clock is ahead of all samples."""
    job = job_of(tmp_path, tmp_path / "results", clock=StoppedClock(START_MS + 3 * HOUR_MS))
    return LightPipeline(job, lambda: 8)


def test_it_steps_aside_while_another_job_holds_the_results_and_continues_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = simulated(seed=2, replicas=4, seconds=300)
    flushes = by_time(rows, 60)
    flushed(tmp_path, flushes[:2])
    pipeline = pipeline_of(tmp_path)
    with held(tmp_path / "results"):
        assert pipeline.turn() == ASIDE_S
        assert pipeline.turn() == ASIDE_S
        assert pipeline.status() is None
        assert newest(tmp_path / "results") is None
    assert caplog.text.count("The backend makes none until then.") == 1
    assert pipeline.turn() == EVERY_S
    status = pipeline.status()
    assert status is not None
    assert status.running
    assert status.runs_as is RunsAs.THREAD
    flushed(tmp_path, flushes[2:], number=100)
    assert pipeline.turn() == EVERY_S
    same(rows_in(tmp_path / "results", "rates"), in_order(reference_rates(rows)))
    pipeline.job.release()


def test_while_it_holds_the_results_no_other_stream_and_no_backfill_of_late_hours_begins(
    tmp_path: Path,
) -> None:
    flushed(tmp_path, [[sample(t, t * 10) for t in range(0, 4200, 60)]])
    pipeline = pipeline_of(tmp_path)
    pipeline.turn()
    with pytest.raises(ResultsBusy, match="Another stream") as busy, held(tmp_path / "results"):
        pass
    assert "--record-only" in (busy.value.advice or "")
    with (
        pytest.raises(ResultsBusy, match="A stream still writes"),
        new_run(tmp_path / "results", START_MS, START_MS + 2 * HOUR_MS, 1),
    ):
        pass
    with new_run(tmp_path / "results", START_MS, START_MS + HOUR_MS, 1):
        pass
    pipeline.job.release()
    with held(tmp_path / "results"):
        pass


def test_a_large_cluster_is_left_to_spark(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flushed(tmp_path, [[sample(t, t * 10) for t in range(0, 60, 5)]])
    replicas = [8]
    pipeline = pipeline_of(tmp_path)
    pipeline.replicas = lambda: replicas[0]
    assert pipeline.turn() == EVERY_S
    replicas[0] = REPLICAS_MOST + 1
    assert pipeline.turn() == ASIDE_S
    assert pipeline.status() is None
    assert "Start it with --pipeline" in caplog.text
    with held(tmp_path / "results"):
        pass
    replicas[0] = REPLICAS_MOST
    assert pipeline.turn() == EVERY_S
    pipeline.job.release()


def test_trouble_is_said_once_tried_again_ever_later_and_its_end_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    flushed(tmp_path, [[sample(t, t * 10) for t in range(0, 60, 5)]])
    (tmp_path / "results").write_text("a file is in the way")
    pipeline = pipeline_of(tmp_path)
    pauses = [pipeline.turn() for _ in range(6)]
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    status = pipeline.status()
    assert status is not None
    assert not status.running
    assert "Results cannot be written" in status.last_error
    assert caplog.text.count("No results are made of the samples") == 1
    (tmp_path / "results").unlink()
    assert pipeline.turn() == EVERY_S
    status = pipeline.status()
    assert status is not None
    assert (status.running, status.restarts, status.runs_as) == (True, 1, RunsAs.THREAD)
    assert "Results of the samples are made in" in caplog.text
    assert len(rows_in(tmp_path / "results", "rates")) == 12
    pipeline.job.release()


def test_nothing_is_made_before_there_is_a_recording(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path / "later")
    assert pipeline.turn() == EVERY_S
    assert not (tmp_path / "later").exists()
    status = pipeline.status()
    assert status is not None
    assert status.running


def test_hours_that_nobody_saw_in_time_are_named_with_the_command_that_makes_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [sample(t, t * 10) for t in range(0, 9000, 300)]
    seen = [row for row in rows if row["at"] < time_of(START_MS + 1_800_000)]
    flushed(tmp_path, [seen])
    made(tmp_path, tmp_path / "results")
    assert "backfill" not in caplog.text
    flushed(tmp_path, [[row for row in rows if row not in seen]], number=2)
    Retention(tmp_path, 7, 0.0).put_together(START_MS + 2 * HOUR_MS)
    made(tmp_path, tmp_path / "results")
    assert "2 hours of samples are not in the results" in caplog.text
    assert (
        f"kshunt pipeline backfill --samples {tmp_path} --from 2026-11-22T03:00+00:00 "
        "--to 2026-11-22T05:00+00:00"
    ) in caplog.text


def test_it_runs_beside_a_backend_and_gives_the_results_back_at_its_end(tmp_path: Path) -> None:
    flushed(tmp_path, [[sample(t, t * 10) for t in range(0, 60, 5)]])
    job = job_of(tmp_path, tmp_path / "results", clock=SystemClock())
    pipeline = LightPipeline(job, lambda: 1, every_s=0.01)

    async def run() -> None:
        async with pipeline.beside():
            rates = tmp_path / "results" / "rates"
            await asyncio.to_thread(wait_until, rates.exists, DEADLINE_S, "a batch counts")
            flushed(tmp_path, [[sample(t, t * 10) for t in range(60, 90, 5)]], number=2)
            await asyncio.to_thread(
                wait_until,
                lambda: (newest(tmp_path / "results") or pytest.fail("no state")).batch >= 1,
                DEADLINE_S,
                "the next one does",
            )

    asyncio.run(run())
    assert len(rows_in(tmp_path / "results", "rates")) == 18
    with held(tmp_path / "results"):
        pass


# The state


def left_in_version(results: Path, version: int) -> None:
    """Let a stream of another version of kshunt have left its state."""
    meta = begun(results)
    path = state_folder(results, meta.batch) / "meta.json"
    path.write_text(replace(meta, version=version).to_json())


def test_states_of_the_versions_that_are_read_are_taken_and_others_are_refused(
    tmp_path: Path,
) -> None:
    for version in VERSIONS_READ:
        left_in_version(tmp_path / str(version), version)
        assert begun(tmp_path / str(version)).version == version
    left_in_version(tmp_path / "later", VERSIONS_READ[-1] + 1)
    with pytest.raises(StreamState, match="has version 5, and this kshunt reads 4"):
        begun(tmp_path / "later")


def test_a_backlog_is_taken_in_batches_of_some_files(tmp_path: Path) -> None:
    rows = [sample(t, t * 10) for t in range(0, 700, 5)]
    flushed(tmp_path, by_time(rows, 10))
    made(tmp_path, tmp_path / "results")
    meta = newest(tmp_path / "results")
    assert meta is not None
    assert meta.batch == len(by_time(rows, 10)) // FILES_MOST_HERE
    same(rows_in(tmp_path / "results", "rates"), in_order(reference_rates(rows)))
