"""Roll-ups by hour and day: long questions have the same answers, also when the rows are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.columns import read_files
from kshunt.backend.delivered_files.result_files import hour_folders, read_manifest
from kshunt.backend.domain.pipeline.delivered import BottleneckRow, Rows, TransferHistory
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES
from kshunt.backend.domain.pipeline.roll_up_columns import (
    ALL_TABLES,
    BOTTLENECKS,
    BOTTLENECKS_BY_DAY,
    COPIES,
    ROLL_UPS,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS, hour_folder
from kshunt.backend.pipeline.results import roll_ups
from kshunt.backend.pipeline.results.hour_figures import COLUMNS, LastRows, figures_of
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.pipeline.results.result_runs import new_run
from kshunt.backend.pipeline.results.roll_ups import last_rows
from kshunt.backend.telemetry.results.results_reader import Results
from tests.support.pipeline import delivered
from tests.support.pipeline.delivered import Row, rows_in

FIRST_MS = 1_795_392_000_000 // DAY_MS * DAY_MS
KEPT = KeptDays(14, 730)
BOUNDS = ("leader throttle of broker 3", "broker 4 sending", "link 1->4")


Answer = TypeVar("Answer", Rows[BottleneckRow], TransferHistory)


class At(SystemClock):
    """A clock that is at a moment."""

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


def write_hour(results: Path, number: int, *, every_s: int = 600) -> None:
    """Rates of a copy and a replica at rest, and what limits an operation, in two batches."""
    start_ms = FIRST_MS + number * HOUR_MS
    times = range(start_ms, start_ms + HOUR_MS, every_s * 1_000)
    for batch, some in enumerate((times[::2], times[1::2])):
        part = f"batch_id={2 * number + batch}"
        delivered.write(results, RATES, [rate(at, rid) for at in some for rid in (1, 2)], part)
        rows = [eta(at, f"op{number % 5}", BOUNDS[number % 3]) for at in some]
        delivered.write(results, ETA, rows, part)


def rate(at_ms: int, rid: int) -> Row:
    moves = rid == 1
    row: Row = {"at": at_ms, "tick": at_ms, "rid": rid, "broker": 2, "leader": 1, "topic": "t"}
    row |= {"adding": moves, "in_isr": not moves, "elapsed_s": 5.0, "lag_messages": 0}
    return row | {"remaining_bytes": at_ms // 1_000 % 999, "advanced_bytes": 500}


def eta(at_ms: int, operation: str, bound: str) -> Row:
    return {"at": at_ms, "tick": at_ms, "operation_id": operation, "bound": bound, "p50_s": 9.0}


@contextmanager
def reader(results: Path, now_ms: int) -> Iterator[Results]:
    found = Results(results, At(now_ms))
    yield found
    found.stop()


def bottlenecks(
    results: Path, now_ms: int, since_ms: int, until_ms: int
) -> tuple[BottleneckRow, ...]:
    with reader(results, now_ms) as found:
        return whole(lambda: found.bottlenecks(since_ms, until_ms), since_ms).rows


def course(results: Path, now_ms: int, since_ms: int, most: int = 2_000) -> TransferHistory:
    with reader(results, now_ms) as found:
        return whole(lambda: found.transfer_history(since_ms, most)[1], since_ms)


def whole(ask: Callable[[], Answer], since_ms: int) -> Answer:
    """The answer once all is read: a busy machine reads it in several steps."""
    same, former = 0, ask()
    while same < 3:
        found = ask()
        done = found.since_ms in (None, since_ms) and found == former
        same, former = same + 1 if done else 0, found
    return former


def by_hour(history: TransferHistory) -> list[tuple[float, ...]]:
    """Sums of the points of each hour, so that points of other lengths can be compared."""
    found: dict[int, list[float]] = {}
    for point in history.points:
        sums = found.setdefault(point.at_ms // HOUR_MS * HOUR_MS, [0.0, 0.0, 0.0, 0.0])
        values = (point.lag_bytes, point.copied_bytes_per_s, point.copies, 1.0)
        sums[:] = [one + value for one, value in zip(sums, values, strict=True)]
    return [(at, *(value / n for value in sums)) for at, (*sums, n) in found.items()]


def test_long_questions_have_the_same_answers_from_roll_ups_and_when_the_rows_are_gone(
    tmp_path: Path,
) -> None:
    hours = [24 * day + hour for day in range(6) for hour in (0, 9, 10, 23)]
    for number in hours:
        write_hour(tmp_path, number)
    now_ms = FIRST_MS + 6 * DAY_MS
    days = [(FIRST_MS + n * DAY_MS, FIRST_MS + (n + 1) * DAY_MS) for n in range(6)]
    spans = [*days, (FIRST_MS, now_ms), (FIRST_MS + 5 * HOUR_MS, now_ms - 7 * HOUR_MS)]
    before = [bottlenecks(tmp_path, now_ms, *span) for span in spans]
    raw = by_hour(course(tmp_path, now_ms, FIRST_MS))
    done = maintain(tmp_path, KEPT, lambda: now_ms)
    assert done.rolled_hours == 2 * len(hours)
    assert [bottlenecks(tmp_path, now_ms, *span) for span in spans] == before
    rolled = course(tmp_path, now_ms, FIRST_MS)
    assert rolled.bucket_s == 3600.0
    assert by_hour(rolled) == pytest.approx(raw)
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 0
    # The rows of the first days go, and the answers stay.
    done = maintain(tmp_path, KeptDays(2, 730), lambda: now_ms)
    assert done.deleted_hours == 2 * 4 * 4
    assert done.rolled_hours == 0
    assert len(hour_folders(tmp_path / "rates")) == 2 * 4
    assert [bottlenecks(tmp_path, now_ms, *span) for span in spans] == before
    assert by_hour(course(tmp_path, now_ms, FIRST_MS)) == pytest.approx(raw)
    for one in ROLL_UPS:
        for table in one.tables:
            assert len(hour_folders(tmp_path / table.name)) == 6


def test_the_newest_hours_are_read_from_their_rows(tmp_path: Path) -> None:
    for number in (*(24 * day + 9 for day in range(5)), *range(5 * 24 - 5, 5 * 24)):
        write_hour(tmp_path, number)
    now_ms = FIRST_MS + 5 * DAY_MS
    before = bottlenecks(tmp_path, now_ms, FIRST_MS, now_ms)
    raw = by_hour(course(tmp_path, now_ms, FIRST_MS))
    maintain(tmp_path, KEPT, lambda: now_ms - 3 * HOUR_MS)
    newest = hour_folders(tmp_path / COPIES.by_hour.name)[-1]
    assert pq.ParquetFile(*newest.path.rglob("*.parquet")).metadata.num_rows == 3
    assert bottlenecks(tmp_path, now_ms, FIRST_MS, now_ms) == before
    assert by_hour(course(tmp_path, now_ms, FIRST_MS)) == pytest.approx(raw)


@pytest.mark.slow
def test_over_more_than_a_month_days_are_read(tmp_path: Path) -> None:
    hours = [24 * day + hour for day in range(40) for hour in (9, 23)]
    for number in hours:
        write_hour(tmp_path, number, every_s=1_800)
    now_ms = FIRST_MS + 40 * DAY_MS
    since_ms = FIRST_MS + 9 * HOUR_MS
    before = bottlenecks(tmp_path, now_ms, since_ms, now_ms)
    maintain(tmp_path, KeptDays(60, 730), lambda: now_ms)
    maintain(tmp_path, KeptDays(3, 730), lambda: now_ms)
    assert len(hour_folders(tmp_path / "eta")) == 6
    assert bottlenecks(tmp_path, now_ms, since_ms, now_ms) == before
    history = course(tmp_path, now_ms, since_ms, 300)
    assert history.bucket_s == 86_400.0
    assert len(history.points) == 40
    assert len(course(tmp_path, now_ms, since_ms, 20).points) <= 20
    assert history.points[3].copied_bytes_per_s == pytest.approx(100)
    assert done_by_day(tmp_path) == 40 * 2 * 3_600 / 1_800 * 5


def done_by_day(results: Path) -> float:
    rows = rows_in(results, BOTTLENECKS_BY_DAY.name, "day")
    return sum(float(row["seconds"]) for row in rows)


def test_an_hour_that_a_backfill_made_again_is_rolled_up_again(tmp_path: Path) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    now_ms = FIRST_MS + 5 * HOUR_MS
    maintain(tmp_path, KEPT, lambda: now_ms)
    with new_run(tmp_path, FIRST_MS + HOUR_MS, FIRST_MS + 2 * HOUR_MS, now_ms) as run:
        place = run.path(ETA) / hour_folder(FIRST_MS + HOUR_MS)
        place.mkdir(parents=True)
        rows = [eta(FIRST_MS + HOUR_MS, "again", "link 7->8")]
        pq.write_table(delivered.arrow(ETA, rows), place / "part-0.parquet")
        run.written(ETA)
        run.publish([FIRST_MS + HOUR_MS], now_ms, None)
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 1
    found = bottlenecks(tmp_path, now_ms, FIRST_MS, FIRST_MS + DAY_MS)
    assert {row.bound: row.seconds for row in found} == {
        **dict.fromkeys((BOUNDS[0], BOUNDS[2]), 30.0),
        "link 7->8": 5.0,
    }
    runs = read_manifest(tmp_path).hours[BOTTLENECKS.by_hour.name]
    assert list(runs) == [hour_folder(FIRST_MS)]


def test_of_the_hour_before_only_replicas_are_read_whose_first_row_needs_it(
    tmp_path: Path,
) -> None:
    in_isr: Row = {"adding": False, "in_isr": True}
    out: Row = {"adding": False, "in_isr": False}
    copied: Row = {"adding": True, "in_isr": False, "operation_id": "op"}
    arrived = in_isr | {"copied_from": 1, "copied_bytes": 70, "copied_s": 5.0}
    moves = {1: (copied, arrived), 2: (in_isr, out), 3: (out, out), 4: (in_isr, in_isr)}
    files, tables = [], []
    for hour in range(2):
        at_ms = FIRST_MS + hour * HOUR_MS
        rows = [rate(at_ms, rid) | both[hour] for rid, both in moves.items()]
        files.append(delivered.write(tmp_path, RATES, rows))
        tables.append(read_files(files[hour], RATES, COLUMNS))
    _, whole = figures_of(tables[0], lambda rids: LastRows.nothing())
    asked: list[list[int]] = []

    def last(rids: NDArray[np.int64]) -> LastRows:
        asked.append(rids.tolist())
        return last_rows(files[0], rids)

    found, _ = figures_of(tables[1], last)
    assert asked == [[1, 2, 3]]
    assert found == figures_of(tables[1], lambda rids: whole)[0]
    assert (found.copied_bytes, [drop.at_ms for drop in found.drops]) == (70, [FIRST_MS + HOUR_MS])
    assert found.copies["op", 1].copied_bytes == 70
    assert last_rows(files[0], np.array([2, 4])).rid.tolist() == [2, 4]
    assert last_rows([tmp_path / "gone"], np.array([], np.int64)).rid.tolist() == []


def test_an_hour_without_copies_is_looked_at_once_and_is_no_point(tmp_path: Path) -> None:
    delivered.write(tmp_path, RATES, [rate(FIRST_MS, 2)])
    delivered.write(tmp_path, ETA, [eta(FIRST_MS, "op", "not started") | {"rid": 7}])
    now_ms = FIRST_MS + 5 * DAY_MS
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 2
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 0
    assert bottlenecks(tmp_path, now_ms, FIRST_MS, now_ms) == ()
    assert course(tmp_path, now_ms, FIRST_MS).points == ()
    (row,) = rows_in(tmp_path, BOTTLENECKS.by_hour.name, "start")
    assert (row["operation_id"], row["bound"], row["seconds"]) == (None, None, 0.0)


def test_an_hour_that_cannot_be_read_is_rolled_up_once_it_can(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    path = sorted((tmp_path / "eta").rglob("*.parquet"))[0]
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    now_ms = FIRST_MS + 5 * HOUR_MS
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 1
    path.write_bytes(content)
    assert maintain(tmp_path, KEPT, lambda: now_ms).rolled_hours == 1
    assert len(bottlenecks(tmp_path, now_ms, FIRST_MS, FIRST_MS + DAY_MS)) == 1


def test_roll_ups_are_kept_as_long_as_results(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    write_hour(tmp_path, 30 * 24)
    now_ms = FIRST_MS + 31 * DAY_MS
    maintain(tmp_path, KeptDays(60, 60), lambda: now_ms)
    tables = [table for one in ROLL_UPS for table in one.tables]
    assert {len(hour_folders(tmp_path / table.name)) for table in tables} == {2}
    deleted = maintain(tmp_path, KeptDays(14, 20), lambda: now_ms).deleted_hours
    assert deleted == 2 + len(tables)
    assert {len(hour_folders(tmp_path / table.name)) for table in tables} == {1}
    assert not any(table.by_tick for table in tables)
    assert len({table.name for table in ALL_TABLES}) == len(ALL_TABLES)
    assert roll_ups.roll_up(tmp_path, 0, (), lambda: now_ms, lambda: False) == 0
