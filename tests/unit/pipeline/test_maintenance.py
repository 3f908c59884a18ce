"""Compaction and retention of results: the same rows in fewer files, whatever is killed when."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.delivered_files.result_files import current_files, hour_folders, read_manifest
from kshunt.backend.domain.pipeline.delivered import STREAM
from kshunt.backend.domain.pipeline.result_columns import (
    RATES,
    STALLS,
    ResultTable,
)
from kshunt.backend.domain.pipeline.roll_up_columns import COPIES_BY_HOUR
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.pipeline.batches.arrivals import made_ms
from kshunt.backend.pipeline.command import main
from kshunt.backend.pipeline.results import stream_state
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.pipeline.results.result_runs import ResultsBusy, new_run
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.paths import ROOT
from tests.support.pipeline import delivered

HOUR = 1_795_000_000_000 // HOUR_MS * HOUR_MS
NOW_MS = HOUR + 3 * HOUR_MS + 60_000
KEPT = KeptDays(14, 730)
FOLDERS_AT_ONCE = 25


def rows_of(table: ResultTable, hour_ms: int, batch: int) -> list[dict[str, Any]]:
    """Rows of a batch: those of one tick."""
    at = hour_ms + batch * 5_000
    return [
        {"at": at, "tick": at, "start": at, "end": at, "rid": rid, "topic": f"t{rid % 3}"}
        for rid in range(7, 0, -1)
    ]


def streamed(results: Path, hours: int = 3, batches: int = 5, first_ms: int = HOUR) -> None:
    """What a streaming job has left: a file a batch, and its state."""
    for hour in range(hours):
        for batch in range(batches):
            for table in (RATES, STALLS):
                rows = rows_of(table, first_ms + hour * HOUR_MS, batch)
                delivered.write(results, table, rows, f"batch_id={hour * batches + batch}")
    end_ms = first_ms + hours * HOUR_MS
    meta = replace(stream_state.begin(results), closed_ms=end_ms + stream_state.FINAL_AFTER_MS)
    (stream_state.state_folder(results, meta.batch) / "meta.json").write_text(meta.to_json())


def all_rows(results: Path) -> dict[str, list[dict[str, Any]]]:
    return {t.name: delivered.rows_in(results, t.name, "rid", "topic", t.hour_of) for t in TABLES}


TABLES = (RATES, STALLS)


def files_an_hour(results: Path, table: ResultTable) -> dict[str, int]:
    return {
        hour.name: len(list(hour.path.rglob("*.parquet")))
        for hour in hour_folders(results / table.name)
    }


def test_settled_hours_become_a_file_each_with_the_same_rows(tmp_path: Path) -> None:
    streamed(tmp_path)
    before = all_rows(tmp_path)
    done = maintain(tmp_path, KEPT, lambda: NOW_MS)
    # The stream reads its last settled hour again.
    assert list(files_an_hour(tmp_path, RATES).values()) == [1, 1, 5]
    assert (done.compacted_hours, done.files_before, done.deleted_hours) == (4, 20, 0)
    assert done.bytes_after < done.bytes_before
    assert all_rows(tmp_path) == before
    told: list[tuple[float, str]] = []
    again = maintain(tmp_path, KEPT, lambda: NOW_MS, is_at=lambda *at: told.append(at))
    assert told == [(0.0, hour_folder(HOUR)), (0.5, hour_folder(HOUR + HOUR_MS))]
    assert (again.compacted_hours, again.problems) == (0, [])


def test_a_compacted_hour_is_still_the_streams(tmp_path: Path) -> None:
    streamed(tmp_path)
    before = Results(tmp_path, SystemClock()).tables()
    for hour in hour_folders(tmp_path / "rates")[-1:]:
        shutil.rmtree(hour.path)
    for hour in hour_folders(tmp_path / "stalls")[-1:]:
        shutil.rmtree(hour.path)
    newest = Results(tmp_path, SystemClock()).tables()
    maintain(tmp_path, KEPT, lambda: NOW_MS)
    assert Results(tmp_path, SystemClock()).tables() == newest
    assert {status.source for status in (*before, *newest)} == {STREAM}
    assert made_ms(read_manifest(tmp_path), HOUR) == 0, "no backfill has made it"


def test_a_backfilled_hour_stays_the_backfills(tmp_path: Path) -> None:
    with new_run(tmp_path, HOUR, HOUR + HOUR_MS, NOW_MS) as run:
        for part in range(3):
            place = run.path(RATES) / hour_folder(HOUR)
            place.mkdir(parents=True, exist_ok=True)
            rows = delivered.arrow(RATES, rows_of(RATES, HOUR, part))
            pq.write_table(rows, place / f"part-{part}.parquet")
        run.written(RATES)
        run.publish([HOUR], NOW_MS, HOUR + 9)
    (record,) = read_manifest(tmp_path).runs.values()
    maintain(tmp_path, KEPT, lambda: NOW_MS + HOUR_MS)
    compacted = read_manifest(tmp_path).run_of(RATES.name, hour_folder(HOUR))
    assert compacted is not None
    assert compacted == replace(record, id=compacted.id, thinned=True)
    assert made_ms(read_manifest(tmp_path), HOUR) == NOW_MS
    assert len(current_files(tmp_path, "rates")) == 1


def test_hours_that_a_backfill_has_to_make_again_are_left_to_it(tmp_path: Path) -> None:
    streamed(tmp_path)
    meta = stream_state.newest(tmp_path)
    assert meta is not None
    owed = replace(meta, owed={str(HOUR): NOW_MS})
    (stream_state.state_folder(tmp_path, meta.batch) / "meta.json").write_text(owed.to_json())
    maintain(tmp_path, KEPT, lambda: NOW_MS)
    assert list(files_an_hour(tmp_path, RATES).values()) == [5, 1, 5]


def test_hours_that_are_too_old_are_deleted_by_the_days_of_their_table(tmp_path: Path) -> None:
    for first_ms in (HOUR - 30 * DAY_MS, HOUR - 13 * DAY_MS):
        streamed(tmp_path, hours=1, first_ms=first_ms)
        shutil.rmtree(tmp_path / stream_state.STREAM)
    streamed(tmp_path)
    done = maintain(tmp_path, KeptDays(14, 365), lambda: NOW_MS)
    assert done.deleted_hours == 1
    oldest, *_ = hour_folders(tmp_path / "rates")
    assert oldest.name == hour_folder(HOUR - 13 * DAY_MS)
    assert len(hour_folders(tmp_path / "stalls")) == 5
    assert not (tmp_path / "rates" / hour_folder(HOUR - 30 * DAY_MS)).parent.exists()


def test_the_manifest_names_no_hour_that_a_killed_retention_had_deleted(tmp_path: Path) -> None:
    old_ms = HOUR - 30 * DAY_MS
    streamed(tmp_path, hours=1, first_ms=old_ms)
    shutil.rmtree(tmp_path / stream_state.STREAM)
    maintain(tmp_path, KeptDays(60, 730), lambda: NOW_MS)
    streamed(tmp_path)
    old = tmp_path / "rates" / hour_folder(old_ms)
    assert hour_folder(old_ms) in read_manifest(tmp_path).hours["rates"]
    shutil.rmtree(old)
    done = maintain(tmp_path, KEPT, lambda: NOW_MS)
    assert done.deleted_hours == 0
    manifest = read_manifest(tmp_path)
    assert hour_folder(old_ms) not in manifest.hours["rates"]
    assert hour_folder(old_ms) in manifest.hours["stalls"]
    assert not old.parent.exists()


def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path) -> None:
    streamed(tmp_path)
    before = all_rows(tmp_path)
    done = maintain(tmp_path, KEPT, lambda: NOW_MS + 1000 * DAY_MS)
    assert done.deleted_hours == 0
    assert all_rows(tmp_path) == before


def test_columns_that_a_newer_version_added_are_null_before_it(tmp_path: Path) -> None:
    streamed(tmp_path, hours=3, batches=2)
    path = sorted((tmp_path / "rates").rglob("*.parquet"))[0]
    rows = pq.read_table(path)
    pq.write_table(rows.append_column("later", pa.array(range(len(rows)))), path)
    maintain(tmp_path, KEPT, lambda: NOW_MS)
    found = pq.read_table(current_files(tmp_path, "rates")[0])
    assert sorted(found["later"].to_pylist(), key=lambda n: (n is None, n)) == [
        *range(7),
        *[None] * 7,
    ]


def test_a_damaged_file_leaves_its_hour_as_it_is(tmp_path: Path) -> None:
    streamed(tmp_path)
    path = sorted((tmp_path / "rates").rglob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-3])
    done = maintain(tmp_path, KEPT, lambda: NOW_MS)
    assert list(files_an_hour(tmp_path, RATES).values()) == [5, 1, 5]
    assert list(files_an_hour(tmp_path, STALLS).values()) == [1, 1, 5]
    (problem,) = done.problems
    assert problem.startswith(f"rates/{hour_folder(HOUR)}: ")


def test_it_stops_between_files_and_what_it_had_begun_does_not_count(tmp_path: Path) -> None:
    streamed(tmp_path)
    before = all_rows(tmp_path)
    hour = 1 + (len(TABLES) * 2 + 1) * 5
    """It asks before an hour, before it reads the columns of each file, and before its rows; of
    rates also before it looks at what rests."""
    for asks in (1, 4, 9, 15, 20, hour):
        left = iter([False] * (asks - 1) + [True])
        done = maintain(tmp_path, KEPT, lambda: NOW_MS, is_stopped=lambda left=left: next(left))  # type: ignore[misc]
        assert done.compacted_hours == 0
        assert list(files_an_hour(tmp_path, RATES).values()) == [5, 5, 5]
        assert not list(tmp_path.glob(".run-*"))
    left = iter([False] * hour + [True])
    done = maintain(tmp_path, KEPT, lambda: NOW_MS, is_stopped=lambda: next(left))
    assert (done.compacted_hours, done.files_before) == (2, 10)
    assert list(files_an_hour(tmp_path, RATES).values()) == [1, 5, 5]
    assert all_rows(tmp_path) == before


def test_a_backfill_that_works_there_is_an_error(tmp_path: Path) -> None:
    streamed(tmp_path)
    with new_run(tmp_path, HOUR, HOUR + HOUR_MS, NOW_MS), pytest.raises(ResultsBusy):
        maintain(tmp_path, KEPT, lambda: NOW_MS)


def killed(moments: tuple[int, int, int], folders: list[Path]) -> list[bool]:
    """Maintain each folder, killed at another step; whether it was."""
    command = [sys.executable, "-m", "tests.support.pipeline.killed.maintenance"]
    command += [str(number) for number in moments] + [str(folder) for folder in folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert set(found) <= {"killed", "0"}, done.stdout + done.stderr
    return [one == "killed" for one in found]


@pytest.mark.slow
def test_killed_at_any_step_it_leaves_the_same_rows(tmp_path: Path) -> None:
    base = tmp_path / "base"
    streamed(base, hours=1, batches=2, first_ms=HOUR - 2 * DAY_MS)
    streamed(base, hours=2, batches=2)
    old = hour_folder(HOUR - 2 * DAY_MS)
    before = all_rows(base)
    expired = {
        t.name: [r for r in before[t.name] if r["tick"].timestamp() * 1000 < HOUR]
        if t is RATES
        else []
        for t in TABLES
    }
    kept = {t.name: [row for row in before[t.name] if row not in expired[t.name]] for t in TABLES}
    assert len(expired["rates"]) == 14
    steps, going = 0, True
    while going:
        folders = [tmp_path / str(steps + n) for n in range(FOLDERS_AT_ONCE)]
        for folder in folders:
            shutil.copytree(base, folder)
        were_killed = killed((NOW_MS, 1, steps), folders)
        for folder, was_killed in zip(folders, were_killed, strict=True):
            found = all_rows(folder)
            # An hour that is deleted is there or not, and never in part.
            assert found["rates"] in (before["rates"], kept["rates"])
            assert found["stalls"] == kept["stalls"]
            maintain(folder, KeptDays(1, 10), lambda: NOW_MS)
            if was_killed:
                assert all_rows(folder) == kept
            assert list(files_an_hour(folder, RATES).values()) == [1, 2]
            # Also the hour that is deleted: it is rolled up before.
            assert len(delivered.rows_in(folder, COPIES_BY_HOUR.name, "start")) == 2
            assert not [path for path in folder.iterdir() if path.name.startswith(".run-")]
            assert not (folder / "rates" / old).exists()
            going = going and was_killed
            shutil.rmtree(folder)
        steps += FOLDERS_AT_ONCE
    assert steps > FOLDERS_AT_ONCE, "it was killed at more than a few steps"


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streamed(tmp_path / "results")
    assert main(["maintain", "--samples", str(tmp_path), "--keep-rates", "14"]) == 0
    assert "Compacted: 20 files → 4, " in capsys.readouterr().out
    assert main(["maintain", "--samples", str(tmp_path)]) == 0
    assert "There was nothing to compact or to delete." in capsys.readouterr().out


def test_the_command_fails_where_an_hour_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streamed(tmp_path / "results")
    path = sorted((tmp_path / "results" / "rates").rglob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["maintain", "--samples", str(tmp_path)]) == ExitCode.FAILED
    assert f"An hour stays as it is: rates/{hour_folder(HOUR)}: " in capsys.readouterr().out


def test_a_state_that_the_next_batch_replaced_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream renames its new state into place, and removes the old one after that."""
    streamed(tmp_path)
    first = stream_state.newest(tmp_path)
    assert first is not None
    read = Path.read_text

    def replaced_before(path: Path, *args: Any, **kwargs: Any) -> str:
        if path.name == "meta.json" and path.parent.name == f"batch_id={first.batch}":
            newer = path.parent.with_name(f"batch_id={first.batch + 1}")
            path.parent.rename(newer)
            (newer / "meta.json").write_text(replace(first, batch=first.batch + 1).to_json())
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", replaced_before)
    newest = stream_state.newest(tmp_path)
    assert newest == replace(first, batch=first.batch + 1)
