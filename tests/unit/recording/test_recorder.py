"""The recorder: whatever hinders it, what is lost is counted and nothing else is."""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.forecast.scoring.kept_forecasts import VoidReason
from kshunt.backend.telemetry.recording.folder_sink import FolderSink
from kshunt.backend.telemetry.recording.gaps import STATE, GapReason, read_state
from kshunt.backend.telemetry.recording.layout import SampleTable, counted
from kshunt.backend.telemetry.recording.schema import read_recording
from tests.support.forecast.kept import kept_forecast
from tests.support.recording.following import DEADLINE_S, following, recorded_moments
from tests.support.recording.gaps import read_gaps
from tests.support.recording.samples import START_MS, keys_in, later, snapshot
from tests.support.waiting import wait_until_async


async def test_every_moment_is_recorded_and_a_clean_end_leaves_no_trace(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await recorded_moments(followed, 5)
        await wait_until_async(lambda: read_state(tmp_path), DEADLINE_S, "it says how far it is")
        await recorded_moments(followed, 1)
    assert len(keys_in(tmp_path)) == 6 * 6
    assert len(set(keys_in(tmp_path))) == 6 * 6
    assert keys_in(tmp_path, SampleTable.BROKERS)
    assert not (tmp_path / STATE).exists()
    assert read_gaps(tmp_path) == ()
    assert followed.recorder.status.problem == ""


async def test_forecasts_are_recorded_once_when_their_operation_has_ended(tmp_path: Path) -> None:
    void = kept_forecast(point=0.5, void=VoidReason.THROTTLE_CHANGED)
    async with following(tmp_path) as followed:
        followed.ended = {"before": (kept_forecast(actual_s=1.0),)}
        await recorded_moments(followed, 2)
        followed.ended |= {"op1": (kept_forecast(actual_s=850.0), void)}
        await recorded_moments(followed, 3)
    rows = read_recording(tmp_path, SampleTable.FORECASTS).to_pylist()
    told = [(r["operation_id"], r["point"], r["actual_s"], r["right"], r["void"]) for r in rows]
    assert told == [
        ("op1", 0.25, 850.0, True, None),
        ("op1", 0.5, None, None, "throttle_changed"),
    ]
    assert {row["bottleneck"] for row in rows} == {"leader_throttle"}


async def test_a_folder_that_cannot_be_used_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recording"
    folder.write_text("where a folder is needed")
    caplog.set_level(logging.INFO)
    async with following(folder) as followed:
        await recorded_moments(followed, 4)
        recorder = followed.recorder
        await wait_until_async(lambda: recorder.status.problem, DEADLINE_S, "it is noticed")
        assert "where a folder is needed" in recorder.status.problem
        assert recorder.status.rows_waiting >= 24
        folder.unlink()
        await wait_until_async(lambda: not recorder.status.problem, DEADLINE_S, "it is well")
        await recorded_moments(followed, 1)
    assert len(keys_in(folder)) == 5 * 6
    said = [record.message for record in caplog.records if "samples" in record.message.lower()]
    assert sum("Samples are not recorded: " in line for line in said) == 1
    assert said[-1] == "Samples are recorded again."


async def test_a_folder_that_vanishes_while_it_records_costs_nothing_since(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    async with following(folder) as followed:
        await recorded_moments(followed, 2)
        await followed.all_written()
        folder.rename(tmp_path / "elsewhere")
        await recorded_moments(followed, 3)
    assert len(keys_in(tmp_path / "elsewhere")) == 2 * 6
    assert len(keys_in(folder)) == 3 * 6


class FullDisk(FolderSink):
    """A disk that has no room left, as far as samples are concerned."""

    full = True
    tries = 0

    def write(self, table: SampleTable, piece: Any) -> None:
        """Refuse, and name another file each time."""
        self.tries += 1
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"file-{self.tries}")
        super().write(table, piece)


async def test_a_full_disk_is_said_once_however_often_it_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullDisk(tmp_path)
    async with following(tmp_path, disk) as followed:
        await recorded_moments(followed, 3)
        await wait_until_async(lambda: disk.tries >= 5, DEADLINE_S, "it is tried again")
        assert "No space left on device" in followed.recorder.status.problem
        state = read_state(tmp_path)
        assert state is not None
        disk.full = False
        await wait_until_async(
            lambda: not followed.recorder.status.problem, DEADLINE_S, "there is room again"
        )
    assert len(keys_in(tmp_path)) == 3 * 6
    assert sum("not recorded" in record.message for record in caplog.records) == 1


async def test_of_a_flush_that_fails_half_way_nothing_is_written_twice(tmp_path: Path) -> None:
    in_the_way = tmp_path / "replicas" / "date=2026-11-22" / "hour=06"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_bytes(b"")
    async with following(tmp_path, flush_s=0.5) as followed:
        await recorded_moments(followed, 2)
        followed.last = later(followed.last, 3_600)
        await recorded_moments(followed, 2)
        recorder = followed.recorder
        await wait_until_async(lambda: recorder.status.problem, DEADLINE_S, "it is noticed")
        assert str(in_the_way) in recorder.status.problem
        in_the_way.unlink()
        await wait_until_async(lambda: not recorder.status.problem, DEADLINE_S, "it is well")
    keys = keys_in(tmp_path)
    assert len(keys) == len(set(keys)) == 4 * 6
    assert len(counted(tmp_path, SampleTable.REPLICAS)) == 2


async def test_what_there_is_no_room_for_is_counted_in_rows_and_seconds(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.write_text("where a folder is needed")
    async with following(folder, rows_waiting=20, brokers_s=1e9) as followed:
        await recorded_moments(followed, 9)
        await wait_until_async(
            lambda: followed.recorder.status.problem, DEADLINE_S, "it is noticed"
        )
        folder.unlink()
        await wait_until_async(lambda: followed.recorder.status.gaps, DEADLINE_S, "the gap is said")
    (gap,) = read_gaps(folder)
    dropped = followed.recorder.status.rows_dropped
    assert gap.why is GapReason.DROPPED
    assert gap.rows == dropped > 0
    assert str(dropped) in gap.text
    assert START_MS < gap.from_ms <= gap.to_ms
    assert len(keys_in(folder)) + len(keys_in(folder, SampleTable.BROKERS)) + dropped == 9 * 6 + 2


async def test_it_falls_behind_and_says_which_moments_it_left_out(tmp_path: Path) -> None:
    go, held = threading.Event(), threading.Event()
    async with following(tmp_path) as followed:
        await recorded_moments(followed, 1)

        def block() -> None:
            held.set()
            go.wait(DEADLINE_S)

        followed.block = block
        await followed.publish()
        await wait_until_async(held.is_set, DEADLINE_S, "it is held up")
        await followed.publish(5)
        go.set()
        await wait_until_async(
            lambda: followed.recorder.status.moments_skipped == 4, DEADLINE_S, "they are counted"
        )
        await wait_until_async(lambda: read_gaps(tmp_path), DEADLINE_S, "and written down")
    (gap,) = read_gaps(tmp_path)
    assert (gap.why, gap.moments) == (GapReason.SKIPPED, 4)
    assert gap.to_ms - gap.from_ms == 5_000
    assert len(keys_in(tmp_path)) == 3 * 6


async def test_what_cannot_be_turned_into_rows_ends_nothing(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await recorded_moments(followed, 1)

        def fail() -> None:
            raise ValueError("what is this")

        followed.block = fail
        await followed.publish()
        recorder = followed.recorder
        await wait_until_async(lambda: recorder.status.problem, DEADLINE_S, "it is said")
        assert "what is this" in recorder.status.problem
        await wait_until_async(lambda: read_gaps(tmp_path), DEADLINE_S, "it is a gap")
        followed.block = dict
        await recorded_moments(followed, 1)
        await wait_until_async(lambda: not recorder.status.problem, DEADLINE_S, "it is well")
    assert len(keys_in(tmp_path)) == 2 * 6
    assert read_gaps(tmp_path)[0].moments == 1


async def test_another_cluster_is_not_recorded_into_the_same_files(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await recorded_moments(followed, 1)
        rows = followed.last
        await followed.hub.publish(
            snapshot([], rows.taken_ms + 1_000, rows.version + 1, cluster_id="other")
        )
        recorder = followed.recorder
        await wait_until_async(lambda: recorder.status.problem, DEADLINE_S, "it is said")
        assert "other answers" in recorder.status.problem
    assert len(keys_in(tmp_path)) == 6


async def test_a_second_backend_records_nothing_until_the_first_one_ends(tmp_path: Path) -> None:
    async with following(tmp_path) as first:
        await recorded_moments(first, 1)
        await first.all_written()
        async with following(tmp_path) as second:
            await recorded_moments(second, 1)
            recorder = second.recorder
            await wait_until_async(lambda: recorder.status.problem, DEADLINE_S, "it is said")
            assert "Another backend records" in recorder.status.problem
        assert second.recorder.status.rows_written == 0
        await recorded_moments(first, 1)
    assert len(keys_in(tmp_path)) == 2 * 6
