"""Results as the backend reads them: from real files, in the layout of the pipeline."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.minutes import bounds_by_minute
from kshunt.backend.delivered_files.result_files import UnreadableResults, current_files
from kshunt.backend.domain.pipeline.delivered import BACKFILL, STREAM
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    MANIFEST,
    MOVE_PAIRS,
    QUALITY,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import hour_folder
from kshunt.backend.telemetry.results import results_reader
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.pipeline.delivered import Row, publish, write

HOUR_MS = 3_600_000
START_MS = 1_763_800_000_000 // HOUR_MS * HOUR_MS


class Patient(SystemClock):
    """A clock on which no time is ever over."""

    def monotonic_s(self) -> float:
        return 0.0


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    reader = Results(tmp_path / "results", Patient())
    yield reader
    reader.stop()


def rate(at_ms: int, rid: int = 1, **others: Any) -> Row:
    return {
        "at": at_ms,
        "tick": at_ms // 5_000 * 5_000,
        "rid": rid,
        "topic": "orders",
        "broker": 2,
        "leader": 1,
        "adding": True,
        "in_isr": False,
        "elapsed_s": 5.0,
        "remaining_bytes": 1_000,
        "advanced_bytes": 500,
        **others,
    }


def stall(start_s: int, seconds: int, rid: int = 1, **others: Any) -> Row:
    return {
        "start": START_MS + start_s * 1_000,
        "end": START_MS + (start_s + seconds) * 1_000,
        "seconds": float(seconds),
        "open": False,
        "rid": rid,
        "topic": "orders",
        "partition": rid,
        "broker": 2,
        "cause": "throttle_too_low",
        **others,
    }


def eta(at_ms: int, operation: str, p50_s: float | None, **others: Any) -> Row:
    return {"at": at_ms, "operation_id": operation, "p50_s": p50_s, "copies": 1, **others}


# Which files hold


def test_nothing_is_there_yet(results: Results) -> None:
    assert results.tables() == ()
    assert results.etas().rows == ()
    assert results.stalls(0).rows == ()
    assert results.causes(0).rows == ()
    assert results.bottlenecks(0).rows == ()
    assert results.loads().rows == ()
    assert results.effects().rows == ()
    assert results.pairs(0).rows == ()
    assert results.quality(0).rows == ()
    assert results.transfer_history(0, 10)[1].points == ()


def test_age_and_source_are_of_the_newest_row(results: Results) -> None:
    write(results.folder, RATES, [rate(START_MS + 5_000)], "run=a")
    publish(results.folder, "a", RATES, [START_MS])
    (rates,) = results.tables()
    assert (rates.table, rates.newest_ms, rates.source) == ("rates", START_MS + 5_000, BACKFILL)
    write(results.folder, RATES, [rate(START_MS + HOUR_MS + 1)], "batch_id=9")
    write(results.folder, RATES, [rate(START_MS + HOUR_MS + 5_001)], "batch_id=10")
    (rates,) = results.tables()
    assert (rates.newest_ms, rates.source) == (START_MS + HOUR_MS + 5_001, STREAM)
    assert rates.made_ms is not None


def test_only_what_the_manifest_names_is_read(results: Results) -> None:
    write(results.folder, STALLS, [stall(0, 20)], "run=old")
    write(results.folder, STALLS, [stall(60, 20, rid=2)], "run=new")
    write(results.folder, STALLS, [stall(120, 20, rid=3)], "batch_id=4")
    publish(results.folder, "new", STALLS, [START_MS])
    assert [one.partition for one in results.stalls(START_MS).rows] == [2]
    (file,) = current_files(results.folder, "stalls")
    assert file.parent.name == "run=new"
    (results.folder / MANIFEST).unlink()
    assert [one.partition for one in results.stalls(START_MS).rows] == [3]


def test_what_is_being_written_is_no_result(results: Results) -> None:
    (path,) = write(results.folder, STALLS, [stall(0, 20)])
    for name in (".hidden.parquet", "_temporary.parquet", "part.crc"):
        shutil.copy(path, path.with_name(name))
    (results.folder / "stalls" / "date=now" / "hour=99").mkdir(parents=True)
    assert len(results.stalls(START_MS).rows) == 1


def test_a_batch_that_is_written_again_counts_once(results: Results) -> None:
    write(results.folder, STALLS, [stall(0, 20)], "batch_id=1")
    assert len(results.stalls(START_MS).rows) == 1
    shutil.rmtree(results.folder / "stalls" / hour_folder(START_MS) / "batch_id=1")
    assert results.stalls(START_MS).rows == ()
    write(results.folder, STALLS, [stall(0, 20), stall(40, 20)], "batch_id=1")
    assert len(results.stalls(START_MS).rows) == 2


def test_what_has_not_ended_is_made_anew_with_each_batch(results: Results) -> None:
    for number in range(40):
        write(results.folder, STALLS, [stall(10 * number, 20)], f"batch_id={number}")
    write(results.folder, STALLS, [stall(3_500, 11, rid=9, open=True)], "batch_id=open")
    assert len(results.stalls(START_MS).rows) == 41
    assert results.tables()[0].newest_ms == START_MS + 3_511_000
    for seconds in (15, 20, 25):
        write(results.folder, STALLS, [stall(3_500, seconds, rid=9, open=True)], "batch_id=open")
        assert results.stalls(START_MS).rows[0].seconds == seconds
    write(results.folder, STALLS, [stall(3_000, 60, rid=9)], "batch_id=40")
    assert len(results.stalls(START_MS).rows) == 42


def test_a_manifest_that_is_none_is_said(results: Results) -> None:
    write(results.folder, STALLS, [stall(0, 20)])
    (results.folder / MANIFEST).write_text("{")
    with pytest.raises(UnreadableResults, match="cannot be read"):
        results.tables()


@pytest.mark.parametrize("cut", [0, 4, 200, -1, -9])
def test_a_torn_file_is_said_and_the_others_count(cut: int, results: Results) -> None:
    write(results.folder, STALLS, [stall(0, 20)], "batch_id=1")
    (torn,) = write(results.folder, STALLS, [stall(60, 20)], "batch_id=2")
    torn.write_bytes(torn.read_bytes()[:cut])
    found = results.stalls(START_MS)
    assert [one.start_ms for one in found.rows] == [START_MS]
    assert "batch_id=2" in found.of.problem
    assert "is ignored" in found.of.problem
    assert found.of.newest_ms == START_MS + 20_000


def test_a_foreign_file_is_said(results: Results) -> None:
    (path,) = write(results.folder, STALLS, [stall(0, 20)])
    pq.write_table(pa.table({"end": ["yesterday"]}), path.with_name("part-foreign.parquet"))
    pq.write_table(pa.table({"x": [1]}), path.with_name("part-other.parquet"))
    found = results.stalls(START_MS)
    assert len(found.rows) == 1
    assert "part-other.parquet is ignored: it has no column" in found.of.problem


def test_a_column_of_a_later_version_is_null(results: Results) -> None:
    (path,) = write(results.folder, STALLS, [stall(0, 20, leader=4, operation_id="op")])
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.drop_columns(["leader", "operation_id"]), path)
    (one,) = results.stalls(START_MS).rows
    assert (one.leader, one.operation_id, one.cause) == (None, None, "throttle_too_low")


# Rows


def test_of_each_operation_the_newest_forecast_is_read(results: Results) -> None:
    rows = [eta(START_MS + s * 1_000, op, 900.0 - s) for s in range(0, 600, 5) for op in "ab"]
    rows += [eta(START_MS + 100_000, "over", 3.0)]
    rows += [eta(START_MS + 595_000, "a", 9.0, rid=7, topic="t", partition=1, broker=2)]
    for number in range(0, len(rows), 50):
        write(results.folder, ETA, rows[number : number + 50], f"batch_id={number}")
    found = results.etas()
    assert found.of.newest_ms == START_MS + 595_000
    assert {(one.operation_id, one.p50_s) for one in found.rows} == {("a", 305.0), ("b", 305.0)}
    (copy,) = results.etas("a", copies=True).rows
    assert (copy.rid, copy.topic, copy.partition, copy.broker) == (7, "t", 1, 2)
    assert results.etas("b", copies=True).rows == ()
    assert [one.operation_id for one in results.etas("b").rows] == ["b"]


def test_a_forecast_follows_over_the_hour(results: Results) -> None:
    write(results.folder, ETA, [eta(START_MS + HOUR_MS - 2_000, "a", 1.0)], "batch_id=1")
    write(results.folder, ETA, [eta(START_MS + HOUR_MS + 3_000, "b", 2.0)], "batch_id=2")
    assert {one.operation_id for one in results.etas().rows} == {"a", "b"}


def test_a_stall_that_grew_is_one_and_an_old_one_is_over(results: Results) -> None:
    write(results.folder, STALLS, [stall(0, 20, open=True)], "batch_id=1")
    write(results.folder, STALLS, [stall(0, 25, open=True)], "batch_id=2")
    (one,) = results.stalls(START_MS).rows
    assert (one.seconds, one.open) == (25.0, True)
    write(results.folder, STALLS, [stall(0, 40)], "batch_id=3")
    write(results.folder, STALLS, [stall(10, 30, rid=5, open=True)], "batch_id=4")
    assert [(one.partition, one.open) for one in results.stalls(START_MS).rows] == [
        (5, True),
        (1, False),
    ]
    write(results.folder, RATES, [rate(START_MS + 400_000)])
    assert not any(one.open for one in results.stalls(START_MS).rows)


def test_stalls_are_found_by_replica_and_bounded(results: Results) -> None:
    rows = [stall(s, 20, rid=s // 10 % 4) for s in range(0, 400, 10)]
    write(results.folder, STALLS, rows)
    mine = results.stalls(START_MS, topic="orders", partition=2, broker=2).rows
    assert len(mine) == 10
    assert [one.start_ms for one in mine] == sorted((o.start_ms for o in mine), reverse=True)
    assert results.stalls(START_MS, topic="other").rows == ()
    few = results.stalls(START_MS, most=7)
    assert (len(few.rows), few.more) == (7, 33)
    later = results.stalls(START_MS + 300_000).rows
    assert min(one.end_ms for one in later) >= START_MS + 300_000


def test_causes_add_up(results: Results) -> None:
    rows = [stall(s, 20, rid=s % 3) for s in range(0, 60, 10)]
    rows += [stall(100, 300, rid=9, cause="broker_down", open=True)]
    write(results.folder, STALLS, rows)
    first, second = results.causes(START_MS).rows
    assert (first.cause, first.stalls, first.open, first.longest_s) == ("broker_down", 1, 1, 300.0)
    assert (second.cause, second.stalls, second.replicas) == ("throttle_too_low", 6, 3)
    assert second.seconds == 120.0


def bound(at_s: int, operation: str, what: str | None, **others: Any) -> Row:
    at_ms = START_MS + at_s * 1_000
    return eta(at_ms, operation, 9.0, tick=at_ms, bound=what, **others)


def test_bottlenecks_are_told_with_their_times(results: Results) -> None:
    throttle, sending = "leader throttle of broker 3", "broker 4 sending"
    rows = [bound(s, "a", throttle) for s in range(0, 600, 5)]
    rows += [bound(s, "b", throttle) for s in range(60, 120, 5)]
    rows += [bound(s, "a", sending) for s in range(600, 660, 5)]
    # A copy alone, and one of which nothing is known.
    rows += [bound(0, "a", "link 1->4", rid=7, topic="t", partition=0, broker=2)]
    rows += [bound(660, "a", None)]
    write(results.folder, ETA, rows[: len(rows) // 2], "batch_id=1")
    write(results.folder, ETA, rows[len(rows) // 2 :], "batch_id=2")
    first, second = results.bottlenecks(START_MS).rows
    assert (first.bound, first.seconds, first.operations) == (throttle, 660.0, 2)
    assert (first.first_ms, first.last_ms) == (START_MS, START_MS + 540_000)
    assert (second.bound, second.seconds, second.operations) == (sending, 60.0, 1)
    (only,) = results.bottlenecks(START_MS + 60_000, START_MS + 120_000).rows
    assert (only.bound, only.seconds, only.operations) == (throttle, 120.0, 2)
    assert results.bottlenecks(START_MS + HOUR_MS).rows == ()


def test_hours_after_the_asked_time_are_not_read(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(4):
        rows = [bound(hour * 3600 + 5, "a", f"broker {hour} sending")]
        write(results.folder, ETA, rows, f"batch_id={hour}")
    read: list[str] = []
    look_at = bounds_by_minute

    def looking(path: Path) -> Any:
        read.append(path.parent.name)
        return look_at(path)

    monkeypatch.setattr(results_reader, "bounds_by_minute", looking)
    found = results.bottlenecks(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS)
    assert [one.bound for one in found.rows] == ["broker 1 sending"]
    assert found.since_ms == START_MS + HOUR_MS
    assert read == ["batch_id=1"]


def test_of_each_broker_the_newest_hour_is_read(results: Results) -> None:
    def load(hour: int, broker: int, newest: int, used: int) -> Row:
        start = START_MS + hour * HOUR_MS
        return {"start": start, "newest": start + newest, "broker": broker, "disk_used_bytes": used}

    write(results.folder, BROKER_LOAD, [load(0, 1, 9, 10), load(0, 2, 9, 20)], "batch_id=1")
    write(results.folder, BROKER_LOAD, [load(1, 1, 5, 11)], "batch_id=2")
    write(results.folder, BROKER_LOAD, [load(1, 1, 8, 12)], "batch_id=3")
    found = results.loads()
    assert [(one.broker, one.disk_used_bytes) for one in found.rows] == [(1, 12), (2, 20)]
    assert found.of.newest_ms == START_MS + HOUR_MS + 8


def test_of_each_throttle_the_last_effect_is_read(results: Results) -> None:
    def effect(start_s: int, broker: int, direction: str, rate: int) -> Row:
        start = START_MS + start_s * 1_000
        return {
            "start": start,
            "end": start + 290_000,
            "broker": broker,
            "direction": direction,
            "permitted_bytes_per_s": rate,
            "advice": "keep",
            "reason": "so",
        }

    rows = [effect(s, 1, "leader", s) for s in (0, 300, 600)]
    rows += [effect(600, 1, "follower", 7), effect(0, 2, "leader", 8)]
    write(results.folder, THROTTLE_EFFECT, rows)
    found = {(one.broker, one.direction): one for one in results.effects().rows}
    assert found[1, "leader"].permitted_bytes_per_s == 600
    assert set(found) == {(1, "leader"), (1, "follower"), (2, "leader")}
    assert results.effects().of.newest_ms == START_MS + 890_000


def test_pairs_are_means_by_what_they_stand_for(results: Results) -> None:
    def pair(start: int, n: int, p50: float, throttled: bool = True) -> Row:
        quantiles = {"p10_bytes_per_s": 1.0, "p50_bytes_per_s": p50, "p90_bytes_per_s": 9.0}
        base = {"start": START_MS + start, "source": 1, "destination": 2, "throttled": throttled}
        return {**base, **quantiles, "n": n, "bytes": 100 * n}

    rows = [pair(0, 10, 2.0), pair(300_000, 30, 6.0), pair(0, 5, 50.0, throttled=False)]
    write(results.folder, MOVE_PAIRS, rows)
    slow, fast = results.pairs(START_MS).rows
    assert (slow.n, slow.bytes, slow.p50_bytes_per_s) == (40, 4_000, 5.0)
    assert (fast.throttled, fast.p50_bytes_per_s) == (False, 50.0)


def test_quality_adds_up_over_runs(results: Results) -> None:
    def count(hour: int, violations: int) -> Row:
        start = START_MS + hour * HOUR_MS
        said = {"of": "replicas", "expectation": "unique", "outcome": "dropped", "meaning": "once"}
        period = {"period_start": start, "period_end": start + HOUR_MS}
        return {**said, **period, "violations": violations, "rows": 100}

    write(results.folder, QUALITY, [count(0, 1)], "batch_id=1")
    write(results.folder, QUALITY, [count(1, 2)], "batch_id=2")
    (one,) = results.quality(START_MS).rows
    assert (one.violations, one.rows, one.meaning) == (3, 200, "once")


# Lag and throughput over days


def test_the_course_weighs_by_time(results: Results) -> None:
    often = [rate(START_MS + s * 1_000) for s in range(0, 600, 5)]
    seldom = [
        rate(START_MS + s * 1_000, 2, adding=False, elapsed_s=60.0, advanced_bytes=0)
        for s in range(30, 600, 60)
    ]
    still = [rate(START_MS + s * 1_000, 3, in_isr=True, adding=False) for s in range(0, 600, 60)]
    leads = [rate(START_MS, 4, adding=False, leader=2)]
    rows = often + seldom + still + leads
    random.Random(1).shuffle(rows)
    for number in range(5):
        write(results.folder, RATES, rows[number::5], f"batch_id={number}")
    of, transfer_history = results.transfer_history(START_MS, 100)
    assert of.table == "rates"
    assert transfer_history.bucket_s == 60.0
    assert transfer_history.since_ms is None
    assert [point.at_ms for point in transfer_history.points] == [
        START_MS + minute * 60_000 for minute in range(10)
    ]
    for point in transfer_history.points:
        assert point.lag_bytes == pytest.approx(2_000)
        assert point.copied_bytes_per_s == pytest.approx(100)
        assert point.copies == pytest.approx(2)


def test_what_is_not_known_adds_nothing(results: Results) -> None:
    unknown: Row = {"elapsed_s": None, "remaining_bytes": None, "advanced_bytes": None}
    write(results.folder, RATES, [rate(START_MS, **unknown), rate(START_MS + 5_000)])
    (point,) = results.transfer_history(START_MS, 10)[1].points
    assert (point.copied_bytes_per_s, point.copies) == (50.0, 0.5)


def test_the_course_has_few_points_that_stay_where_they_are(results: Results) -> None:
    rows = [rate(START_MS + minute * 60_000) for minute in range(300)]
    write(results.folder, RATES, rows)
    before = results.transfer_history(START_MS, 60)[1]
    assert len(before.points) <= 60
    assert before.bucket_s == 600.0
    write(results.folder, RATES, [rate(START_MS + 301 * 60_000)], "batch_id=2")
    after = results.transfer_history(START_MS, 60)[1]
    assert after.points[: len(before.points) - 1] == before.points[:-1]


def test_what_there_is_no_time_for_is_read_later(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for number in range(30):
        at_ms = START_MS + number * HOUR_MS // 5
        write(folder, RATES, [rate(at_ms)], f"batch_id={number}")
    reader = Results(folder, Impatient())
    try:
        first = reader.transfer_history(START_MS, 1_000)[1]
        assert first.since_ms is not None
        assert len(first.points) < 30
        found = first
        for _ in range(100):
            found = reader.transfer_history(START_MS, 1_000)[1]
            if found.since_ms is None:
                break
        assert len(found.points) == 30
    finally:
        reader.stop()


def test_what_was_read_stays_while_there_is_no_time_for_what_is_new(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for hour in range(3):
        write(folder, RATES, [rate(START_MS + hour * HOUR_MS)], f"batch_id={hour}")
    reader = Results(folder, Impatient())
    try:
        for _ in range(20):
            found = reader.transfer_history(START_MS, 1_000)[1]
        assert (len(found.points), found.since_ms) == (3, None)
        for number in range(3, 9):
            at_ms = START_MS + 2 * HOUR_MS + number * 60_000
            write(folder, RATES, [rate(at_ms)], f"batch_id={number}")
        assert len(reader.transfer_history(START_MS, 1_000)[1].points) >= 4
    finally:
        reader.stop()


class Impatient(SystemClock):
    """A clock that is a second later at each look, so that a time limit passes immediately."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 1.0
        return self._now_s


def test_an_hour_that_is_over_is_not_looked_at_again(results: Results) -> None:
    paths = [
        path
        for hour in range(4)
        for path in write(results.folder, STALLS, [stall(hour * 3_600, 20, rid=hour)])
    ]
    assert len(results.stalls(START_MS).rows) == 4
    changed = os.stat(paths[0].parent.parent).st_mtime_ns
    paths[0].unlink()
    os.utime(paths[0].parent.parent, ns=(changed, changed))
    assert len(results.stalls(START_MS).rows) == 4
    os.utime(paths[0].parent.parent)
    assert len(results.stalls(START_MS).rows) == 3
    paths[-1].unlink()
    assert len(results.stalls(START_MS).rows) == 2
