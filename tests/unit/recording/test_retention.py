"""What is kept of a recording, and hours that are put together, whatever is killed when."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.files import replace_file
from kshunt.backend.telemetry.recording import folder_sink as writer
from kshunt.backend.telemetry.recording.folder_sink import FolderSink
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, together, written
from kshunt.backend.telemetry.recording.retention import Retention, clear
from kshunt.backend.telemetry.recording.sample_rows import broker_rows
from kshunt.backend.telemetry.recording.schema import read_recording
from tests.support.recording.samples import START_MS, keys_in, later, many, queried, table_of

OVER_MS = START_MS + 3 * HOUR_MS
"""The hours of `recording` are over then."""
FILES = 4


def record(folder: Path, hours: int = 2, files: int = FILES) -> None:
    """A recording of `hours` hours, with `files` files in each."""
    sink = FolderSink(folder)
    sink.open("cluster", START_MS)
    for hour in range(hours):
        for number in range(files):
            one = later(many(3), hour * 3_600 + number)
            sink.write(SampleTable.REPLICAS, table_of(one))
            sink.write(SampleTable.BROKERS, broker_rows(one))
    sink.note_written([], START_MS)
    sink.end()
    sink.close()


def late(folder: Path) -> None:
    """One more file for the first hour."""
    sink = FolderSink(folder)
    sink.open("cluster", OVER_MS)
    sink.write(SampleTable.REPLICAS, table_of(later(many(3), 100)))
    sink.close()


def retention(folder: Path, keep_days: int = 7) -> Retention:
    return Retention(folder, keep_days, 0.0)


def test_an_hour_becomes_one_file_with_the_same_rows_sorted(tmp_path: Path) -> None:
    record(tmp_path)
    before = {table: keys_in(tmp_path, table) for table in SampleTable}
    retention(tmp_path).apply(OVER_MS, 0.0)
    assert {table: keys_in(tmp_path, table) for table in SampleTable} == before
    assert written(tmp_path, SampleTable.REPLICAS) == []
    hours = together(tmp_path, SampleTable.REPLICAS)
    assert len(hours) == 2
    file = pq.ParquetFile(hours[0].path)
    rids = file.read()["rid"].to_pylist()
    assert rids == sorted(rids)
    assert file.metadata.metadata[b"kshunt.cluster"] == b"cluster"
    assert file.metadata.num_row_groups == 1
    file.close()


def test_an_hour_that_is_not_over_for_long_enough_stays(tmp_path: Path) -> None:
    record(tmp_path)
    Retention(tmp_path, 7, 2 * 3_600.0).apply(OVER_MS, 0.0)
    assert len(written(tmp_path, SampleTable.REPLICAS)) == FILES
    assert len(together(tmp_path, SampleTable.REPLICAS)) == 1
    Retention(tmp_path, 7, None).apply(OVER_MS + DAY_MS, 0.0)
    assert len(written(tmp_path, SampleTable.REPLICAS)) == FILES, "nothing at all where it is off"


def test_rows_that_come_late_are_put_together_the_next_time(tmp_path: Path) -> None:
    record(tmp_path)
    retention(tmp_path).apply(OVER_MS, 0.0)
    late(tmp_path)
    keys = keys_in(tmp_path)
    assert len(keys) == 2 * FILES * 6 + 6
    assert len(next(iter(counted(tmp_path, SampleTable.REPLICAS).values()))) == 2
    retention(tmp_path).apply(OVER_MS, 0.0)
    assert keys_in(tmp_path) == keys
    assert len(together(tmp_path, SampleTable.REPLICAS)) == 2


def test_a_file_that_cannot_be_read_leaves_its_hour_as_it_is(tmp_path: Path) -> None:
    record(tmp_path)
    broken = written(tmp_path, SampleTable.REPLICAS)[1].path
    broken.write_bytes(broken.read_bytes()[:200])
    retention(tmp_path).apply(OVER_MS, 0.0)
    assert len(written(tmp_path, SampleTable.REPLICAS)) == FILES
    assert broken.exists()
    assert len(together(tmp_path, SampleTable.REPLICAS)) == 1, "the other hour is put together"
    assert len(together(tmp_path, SampleTable.BROKERS)) == 2
    assert not list(tmp_path.rglob("*.tmp"))


def test_hours_that_are_too_old_are_dropped_as_a_whole(tmp_path: Path) -> None:
    record(tmp_path)
    retention(tmp_path).put_together(START_MS + HOUR_MS)
    assert len(together(tmp_path, SampleTable.REPLICAS)) == 1
    retention(tmp_path, 1).drop(START_MS + HOUR_MS)
    assert len(keys_in(tmp_path)) == FILES * 6
    assert len(keys_in(tmp_path, SampleTable.BROKERS)) == FILES * 2
    retention(tmp_path, 1).drop(START_MS + DAY_MS)
    assert keys_in(tmp_path) == []
    left = list(tmp_path.rglob("*=*"))
    assert left == []


def test_a_clock_that_was_set_forward_drops_nothing_at_once(tmp_path: Path) -> None:
    record(tmp_path)
    one = Retention(tmp_path, 7, None)
    one.apply(START_MS + 365 * DAY_MS, 0.0)
    one.apply(START_MS, 300.0)
    one.apply(START_MS + 365 * DAY_MS, 600.0)
    assert len(keys_in(tmp_path)) == 2 * FILES * 6
    one.apply(START_MS, 1_200.0)
    one.apply(START_MS + 600_000, 1_800.0)
    assert len(keys_in(tmp_path)) == 2 * FILES * 6
    one.apply(START_MS + 365 * DAY_MS, 2_400.0)
    one.apply(START_MS + 365 * DAY_MS + 600_000, 3_000.0)
    assert keys_in(tmp_path) == [], "a year later it is a year later"


def test_it_stops_between_groups_and_leaves_nothing_behind(tmp_path: Path) -> None:
    record(tmp_path)
    answers = iter([False, True])
    one = Retention(tmp_path, 7, 0.0, stopping=lambda: next(answers, True))
    one.apply(OVER_MS, 0.0)
    assert together(tmp_path, SampleTable.REPLICAS) == []
    assert len(written(tmp_path, SampleTable.REPLICAS)) == 2 * FILES
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_reader_sees_every_row_once_at_any_moment(tmp_path: Path) -> None:
    record(tmp_path, hours=6, files=6)
    keys, over = keys_in(tmp_path), threading.Event()

    def apply() -> None:
        for hour in range(1, 7):
            retention(tmp_path).put_together(START_MS + hour * HOUR_MS)
        over.set()

    thread = threading.Thread(target=apply)
    thread.start()
    looks = 0
    while not over.is_set() or not looks:
        assert keys_in(tmp_path) == keys
        looks += 1
    thread.join()
    assert keys_in(tmp_path) == keys
    assert len(together(tmp_path, SampleTable.REPLICAS)) == 6


def copies(base: Path, count: int) -> list[Path]:
    folders = [base.with_name(f"{base.name}-{number}") for number in range(count)]
    for folder in folders:
        shutil.copytree(base, folder)
    return folders


def killed(now_ms: int, keep_days: int, folders: list[Path]) -> list[str]:
    """Tidy up in each folder, killed at another step."""
    command = [sys.executable, "-m", "tests.support.recording.kill", str(now_ms), str(keep_days)]
    done = subprocess.run(
        [*command, *map(str, folders)], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["first", "with late rows"])
def test_killed_at_any_step_every_row_is_there_once(tmp_path: Path, again: bool) -> None:
    base = tmp_path / "base"
    record(base, hours=1)
    if again:
        retention(base).apply(OVER_MS, 0.0)
        late(base)
    keys = {table: keys_in(base, table) for table in SampleTable}
    folders = copies(base, 18)
    outcomes = killed(OVER_MS, 7, folders)
    assert outcomes[0] == "killed"
    assert outcomes[-1] == "0", "more steps than there are"
    for folder in folders:
        assert {table: keys_in(folder, table) for table in SampleTable} == keys
        clear(folder)
        assert {table: keys_in(folder, table) for table in SampleTable} == keys
        assert plain_count(folder) == len(keys[SampleTable.REPLICAS]), "nothing is there twice"
        assert not list(folder.rglob("*.tmp"))
        retention(folder).apply(OVER_MS, 0.0)
        assert {table: keys_in(folder, table) for table in SampleTable} == keys
        assert len(together(folder, SampleTable.REPLICAS)) == 1
        assert written(folder, SampleTable.REPLICAS) == []


def plain_count(folder: Path) -> int:
    """Rows of all files by their names alone, as somebody counts who knows no rules."""
    paths = [str(path) for path in folder.rglob("*.parquet") if "replicas" in path.parts]
    found = queried(f"select count(*) from read_parquet({paths})")
    return int(found[0][0])


def test_killed_while_it_drops_an_hour_is_there_or_gone(tmp_path: Path) -> None:
    base = tmp_path / "base"
    record(base, hours=2)
    retention(base).put_together(START_MS + HOUR_MS)
    late(base)
    folders = copies(base, 12)
    outcomes = killed(START_MS + 3 * DAY_MS, 1, folders)
    assert outcomes[0] == "killed"
    assert outcomes[-1] == "0"
    for folder in folders:
        clear(folder)
        assert not list(folder.rglob(".gone-*"))
        for hour_ms, paths in counted(folder, SampleTable.REPLICAS).items():
            rows = len(read_recording(folder, SampleTable.REPLICAS, hour_ms, hour_ms + HOUR_MS))
            assert rows in (6 * FILES, 6 * (FILES + 1)), paths
        retention(folder, 1).drop(START_MS + 2 * DAY_MS)
        assert keys_in(folder) == []


def test_an_hours_folder_that_is_tidied_away_before_the_write_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retention removes the empty folder of an hour that it put together."""
    removed: list[Path] = []

    def tidied(path: Path, content: bytes) -> None:
        if not removed:
            removed.append(path.parent)
            path.parent.rmdir()
        replace_file(path, content)

    sink = FolderSink(tmp_path)
    sink.open("cluster", START_MS)
    monkeypatch.setattr(writer, "replace_file", tidied)
    sink.write(SampleTable.REPLICAS, table_of(many(3)))
    sink.close()
    assert removed
    assert [part.path.parent for part in written(tmp_path, SampleTable.REPLICAS)] == removed
