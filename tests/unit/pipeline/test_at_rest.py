"""Rates of replicas at rest: a row an hour, and every reader finds what it found before."""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.result_files import hour_folders, read_manifest
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.kernels.at_rest import Before, rests, thinned
from kshunt.backend.pipeline.reports import operation_results
from kshunt.backend.pipeline.reports.operation_history import copies_of, history_of, rows_of
from kshunt.backend.pipeline.reports.week_results import read_week
from kshunt.backend.pipeline.results import sorted_files
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.pipeline.delivered import rows_in
from tests.support.pipeline.light import made
from tests.support.pipeline.recorded import START_MS, Row, sample, time_of
from tests.support.pipeline.streamed import by_time, flushed

HOURS = 3
KEPT = KeptDays(14, 730)
SCHEMA = pa.schema(arrow_of(RATES.columns))


def rate(at_s: float, rid: int = 1, segment_s: float = 0, **others: Any) -> Row:
    """A row of rates of a follower in the ISR."""
    row: Row = dict.fromkeys(SCHEMA.names)
    at = time_of(START_MS + round(at_s * 1000))
    row |= {"at": at, "tick": at, "segment_start": time_of(START_MS + round(segment_s * 1000))}
    row |= {"rid": rid, "topic": "t", "partition": 0, "broker": 2, "leader": 1, "samples": 1}
    row |= {"in_isr": True, "adding": False, "removing": False, "lag_messages": 0}
    return row | {"elapsed_s": 60.0, "advanced_messages": 10, "advanced_bytes": 1_000} | others


def kept(rows: list[Row], before: Before | None = None) -> list[tuple[float, int, Any]]:
    """Of the rows that are kept: when, of which replica, and the copied bytes."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    found = thinned(table, before or Before.nothing()).of_slice(table, 0).to_pylist()
    return sorted(
        ((r["at"].timestamp() * 1000 - START_MS) / 1000, r["rid"], r["advanced_bytes"])
        for r in found
    )


def test_of_a_replica_at_rest_the_first_and_the_last_row_are_kept_with_what_was_between() -> None:
    rows = [rate(60 * n, rid) for n in range(60) for rid in (1, 2)]
    random.Random(3).shuffle(rows)
    assert kept(rows) == [(0, 1, 1_000), (0, 2, 1_000), (3540, 1, 59_000), (3540, 2, 59_000)]


def test_a_rest_that_goes_on_from_the_hour_before_is_one_row() -> None:
    before = Before.of(pa.Table.from_pylist([rate(-60), rate(-120), rate(-60, 2, -9)], SCHEMA))
    rows = [rate(60 * n, rid) for n in range(60) for rid in (1, 2, 3)]
    others = [(at, rid, gained) for rid in (2, 3) for at, gained in ((0, 1_000), (3540, 59_000))]
    assert kept(rows, before) == sorted([(3540, 1, 60_000), *others])


@pytest.mark.parametrize(
    "change",
    [
        {"in_isr": False},
        {"adding": True},
        {"removing": True},
        {"operation_id": "a1"},
        {"cause": "BROKER_DOWN"},
        {"leader_throttle_bytes_per_s": 5},
        {"follower_throttle_bytes_per_s": 5},
        {"lag_messages": 11, "produced_5m_messages_per_s": 1.0},
        {"lag_messages": None},
        {"leader": None},
    ],
)
def test_what_is_copied_or_lags_keeps_each_row_and_those_next_to_it(change: Row) -> None:
    rows = [rate(60 * n, **(change if 3 <= n < 5 else {})) for n in range(9)]
    assert [at for at, _, _ in kept(rows)] == [0, 120, 180, 240, 300, 480]
    assert [gained for _, _, gained in kept(rows)] == [1_000, 2_000, *[1_000] * 3, 3_000]


def test_a_lag_of_what_is_written_in_some_seconds_is_rest_and_a_leader_has_none() -> None:
    rows = [rate(0, lag_messages=9, produced_5m_messages_per_s=1.0), rate(5, lag_messages=9)]
    rows += [rate(9, lag_messages=None, broker=1)]
    assert rests(pa.Table.from_pylist(rows, SCHEMA)).tolist() == [True, False, True]


def test_another_segment_begins_with_a_row_and_what_is_unknown_stays_unknown() -> None:
    unknown = dict.fromkeys(("elapsed_s", "advanced_messages", "advanced_bytes"))
    rows = [rate(60 * n) for n in range(3)]
    rows += [rate(60 * n, segment_s=180) | (unknown if n in (3, 5) else {}) for n in range(3, 8)]
    rows += [rate(60 * n, 2) | unknown for n in range(3)]
    assert kept(rows) == [
        *((0, 1, 1_000), (0, 2, None), (120, 1, 2_000), (120, 2, None)),
        *((180, 1, None), (420, 1, 3_000)),
    ]
    assert kept([]) == []


def lived() -> list[Row]:
    """Three hours of a leader and followers: one leaves the ISR, one is copied, one is led anew."""
    rows = []
    for at in range(0, HOURS * 3600, 60):
        end = {"leader_log_end_offset": 10 * at, "leader_size_bytes": 1_000 * at}
        rest = {"adding": False, "in_isr": True, "topic": "u", **end}
        out = 5_400 <= at < 5_700
        rows += [
            sample(at + 1, 10 * at, rid=10, broker=1, **rest),
            sample(at + 2, 54_000 if out else 10 * at, rid=11, **rest | {"in_isr": not out}),
            sample(at + 3, 10 * at, rid=13, broker=4, **rest, leader=1 if at < 8_000 else 5),
        ]
        if at >= 4_200:
            rows.append(sample(at + 4, 10 * at, rid=12, broker=3, **rest))
    for at in range(3_000, 4_200, 5):
        ends = {"leader_log_end_offset": 10 * at, "leader_size_bytes": 1_000 * at}
        own = min(50 * (at - 3_000), 10 * at)
        operation = {"operation_id": "op1", "leader_throttle_bytes_per_s": 9_000, "topic": "u"}
        rows.append(sample(at, own, rid=12, broker=3, **ends, **operation))
    return rows


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording with its results as a job has left them; and the same with hours compacted."""
    samples = tmp_path_factory.mktemp("lakes")
    flushed(samples, by_time(lived(), 900))
    made(samples, samples / "results")
    thin = samples / "thin"
    shutil.copytree(samples / "results", thin)
    # Without its state no stream may still write there.
    shutil.rmtree(thin / ".stream")
    done = maintain(thin, KEPT, lambda: START_MS + 9 * HOUR_MS)
    assert not done.problems
    return samples, thin


def test_most_rows_of_replicas_at_rest_are_gone_and_their_bytes_are_not(
    lakes: tuple[Path, Path],
) -> None:
    samples, thin = lakes
    dense, few = (rows_in(folder, "rates", "at") for folder in (samples / "results", thin))
    assert len(few) < len(dense) / 2
    for rid in (10, 11, 12, 13):
        for name in ("advanced_messages", "advanced_bytes", "elapsed_s"):
            sums = [sum(r[name] or 0 for r in rows if r["rid"] == rid) for rows in (dense, few)]
            assert sums[0] == pytest.approx(sums[1])
    quiet = [row for row in few if row["rid"] == 10]
    assert len(quiet) == HOURS + 1, "the first, and the last of each hour"
    assert all(run.thinned for run in read_manifest(thin).runs.values())


def test_some_replicas_after_others_are_thinned_as_all_at_once(
    lakes: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, thin = lakes
    shutil.copytree(samples / "results", tmp_path / "parts", ignore=lambda *_: {".stream"})
    monkeypatch.setattr(sorted_files, "ROWS_AT_ONCE", 50)
    assert not maintain(tmp_path / "parts", KEPT, lambda: START_MS + 9 * HOUR_MS).problems
    parts, whole = (rows_in(folder, "rates", "at", "rid") for folder in (tmp_path / "parts", thin))
    assert parts == whole


def test_lag_weeks_and_operations_are_told_from_few_rows_as_from_all(
    lakes: tuple[Path, Path],
) -> None:
    samples, thin = lakes
    whole = samples / "results"

    def week(results: Path) -> Any:
        found = read_week(Week.at(START_MS), samples, results, None).rates
        throttled, idle = dict(found.throttled_minutes), dict(found.idle_minutes)
        copied = [dict(found.copied_by_hour), dict(found.behind_by_hour)]
        return *copied, throttled, idle, found.drops, found.written, found.copies, found.newest_ms

    def operation(results: Path) -> Any:
        rows = rows_of(operation_results.read("op1", samples, results).rates)
        copies = copies_of(rows)
        history = history_of(rows, copies)
        return [copies.arrived_ms, copies.bytes, copies.seconds, history.remaining_bytes]

    def course(results: Path) -> Any:
        reader = Results(results, SystemClock())
        status, history = reader.transfer_history(START_MS, 200)
        reader.stop()
        return status.newest_ms, [(p.at_ms, p.lag_bytes) for p in history.points]

    assert week(whole) == week(thin)
    assert len(week(thin)[4]) == 1, "the replica that left the ISR"
    for all_rows, few in zip(operation(whole), operation(thin), strict=True):
        assert all_rows.tolist() == pytest.approx(few.tolist(), nan_ok=True)
    assert course(whole) == course(thin)


def test_rates_that_are_one_file_already_are_thinned_some_at_a_time(
    lakes: tuple[Path, Path], tmp_path: Path
) -> None:
    _, thin = lakes
    old = tmp_path / "old"
    shutil.copytree(thin, old)
    text = (old / "manifest.json").read_text()
    (old / "manifest.json").write_text(text.replace('"thinned": true', '"thinned": false'))
    clock = partial(int, START_MS + 9 * HOUR_MS)
    files = len(hour_folders(old / "rates"))
    assert maintain(old, KEPT, clock, rewritten_most=2).rewritten == 2
    assert maintain(old, KEPT, clock).rewritten == files - 2
    assert maintain(old, KEPT, clock).rewritten == 0
    assert rows_in(old, "rates", "at", "rid") == rows_in(thin, "rates", "at", "rid")
