"""Files that cannot be used stop neither a stream nor a backfill, and signals end a stream well."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import current_files, read_manifest
from kshunt.backend.domain.pipeline.file_faults import FileFault
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.jobs.backfill import backfill, check, quality_lines
from kshunt.backend.pipeline.jobs.stream import make_owed
from kshunt.backend.pipeline.jobs.stream_sources import FolderSource
from kshunt.backend.pipeline.results.stream_state import newest
from kshunt.backend.telemetry.recording.schema import UnreadableSamples
from tests.support.documents.printed import printed
from tests.support.pipeline import delivered
from tests.support.pipeline.poisoned import FAR, path_of, poison, whole
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, write
from tests.support.pipeline.recorded_brokers import broker_sample, write_brokers
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java, same
from tests.support.pipeline.streamed import KEPT, by_time, flushed, rows_in, streamed
from tests.support.waiting import require, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEADLINE_S = 300.0


def aside(results: Path) -> dict[str, str]:
    """Of each file that was set aside its fault; each has one line."""
    there = any(current_files(results, "quarantine_files"))
    rows = delivered.rows_in(results, "quarantine_files", "file") if there else []
    assert max(Counter(row["file"] for row in rows).values(), default=1) == 1
    return {row["file"]: row["fault"] for row in rows}


def of_files(results: Path) -> tuple[int, int]:
    """How many files were set aside, of how many."""
    rows = delivered.rows_in(results, "quality", "expectation")
    (found,) = [row for row in rows if row["of"] == "files"]
    return found["violations"], found["rows"]


def test_a_stream_sets_files_aside_and_counts_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = simulated(seed=3, replicas=6, seconds=400)
    flushes = by_time(rows, 100)
    folder, results = tmp_path / "poisoned", tmp_path / "results"
    flushed(folder, flushes[:2])
    made = poison(folder, 100)
    streamed(spark, folder, results)
    assert aside(results) == made
    assert of_files(results) == (len(made), len(made) + 2)
    # A number of a file that is not ours does not hide what is written later.
    flushed(folder, flushes[2:], number=200)
    again = streamed(spark, folder, results)
    assert [file for batch in again for file in batch.aside] == []
    same(rows_in(results, "rates"), rates_of(rows))
    assert aside(results) == made
    meta = newest(results)
    assert meta is not None
    assert [*meta.files_aside.values()] == [FAR]


def rates_of(rows: Sequence[Row]) -> Sequence[Row]:
    """The rates that these samples give, whether or not unusable files lie next to them."""
    expected = sorted(reference_rates(rows), key=lambda r: (str(r["rid"]), str(r["tick"])))
    return [{name: row[name] for name in RATES.names} for row in expected]


def test_a_backfill_sets_files_aside_and_counts_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = simulated(seed=4, replicas=6, seconds=400)
    folder, results = tmp_path / "poisoned", tmp_path / "results"
    write(folder, rows)
    made = poison(folder, 100)
    period = check(folder, None, None)
    report = backfill(spark, folder, results, period, SystemClock(), lambda made: None)
    same(rows_in(results, "rates"), rates_of(rows))
    assert aside(results) == made
    assert of_files(results) == (len(made), len(made) + 1)
    assert len([line for line in quality_lines(report) if "set aside" in line]) == len(made)
    # A file that was repaired is not named any more.
    for name in made:
        (folder / name).unlink()
    period = check(folder, None, None)
    backfill(spark, folder, results, period, SystemClock(), lambda made: None)
    assert aside(results) == {}
    same(rows_in(results, "rates"), rates_of(rows))


def test_an_hour_of_which_nothing_can_be_read_keeps_its_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: list[Row] = [sample(5 * i, i) for i in range(20)]
    (path,) = write(tmp_path, rows)
    results, clock = tmp_path / "results", SystemClock()
    period = check(tmp_path, None, None)
    backfill(spark, tmp_path, results, period, clock, lambda made: None)
    former = rows_in(results, "rates")
    path.write_bytes(whole()[:-9])
    with pytest.raises(UnreadableSamples, match="former results of that time stay valid"):
        backfill(spark, tmp_path, results, check(tmp_path, None, None), clock, lambda made: None)
    assert rows_in(results, "rates") == former
    assert [*aside(results).values()] == ["damaged"]
    # The hours next to it are made though this one cannot be, whatever is known of its brokers.
    write(tmp_path, [sample(n * 3600 + 5 * i, i) for n in (-1, 1) for i in range(20)], number=2)
    write_brokers(tmp_path, [broker_sample(60 * i, 4) for i in range(-30, 90, 10)])
    backfill(spark, tmp_path, results, check(tmp_path, None, None), clock, lambda made: None)
    found = rows_in(results, "rates")
    assert len(found) == 3 * len(former)
    assert [row for row in found if row in former] == former
    assert [*aside(results).values()] == ["damaged"]


def test_a_stream_begins_though_an_owed_hour_cannot_be_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    results, said = tmp_path / "results", list[str]()
    flushed(tmp_path, [[sample(5 * i, i) for i in range(20)]])
    streamed(spark, tmp_path, results)
    merged = tmp_path / "hours" / path_of(tmp_path, 9, START_MS + HOUR_MS).relative_to(tmp_path)
    merged.parent.mkdir(parents=True)
    merged.write_bytes(b"PAR1")
    make_owed(
        spark, FolderSource(tmp_path, SystemClock()), results, SystemClock(), said.append, KEPT
    )
    assert "That hour was not made" in said[-1]
    assert [*aside(results).values()] == [FileFault.DAMAGED]
    assert "rates" not in read_manifest(results).hours


# Ends


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "kshunt", "pipeline", "run", *words]


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    done = subprocess.run(
        command("--samples", str(tmp_path / "none"), "--once"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"There is no folder {tmp_path / 'none'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("everyone", [False, True], ids=["group", "every process"])
def test_a_signal_to_all_its_processes_ends_it_well(tmp_path: Path, *, everyone: bool) -> None:
    require(missing_java())
    flushed(tmp_path, by_time(simulated(seed=5, replicas=6, seconds=250), 60))
    results = tmp_path / "results"
    names = {"/data/kshunt/prod": tmp_path}
    words = printed("docs/operating/pipeline.md", "kshunt pipeline run --samples /data", names)
    assert words[:2] == ["pipeline", "run"]
    job = subprocess.Popen(
        command(*words[2:], "--master", "local[2]", "--memory", "1g"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {INTERPRETED}"},
    )
    try:
        wait_until(lambda: list(results.glob(".batch-*")), DEADLINE_S, "a batch has begun")
        processes = descendants(job.pid)
        assert len(processes) > 1
        if everyone:
            # As a service manager does.
            for pid in processes:
                os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(job.pid, signal.SIGTERM)
        out, error = job.communicate(timeout=DEADLINE_S)
    finally:
        job.kill()
    assert job.returncode == 0, error
    assert "Traceback" not in error + out, error
    # Nobody can prevent what Java says of workers that ended meanwhile.
    assert everyone or not re.search("Exception|Error|ERROR", error + out), error
    wait_until(lambda: not any(map(runs, processes)), DEADLINE_S, "nothing of it is left")


def descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for one in child.read_text().split():
            found += descendants(int(one))
    return found


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
