"""What a backend makes of samples without Spark is what Spark makes of them, row by row."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    EFFECT_S,
    ETA,
    MOVE_PAIRS,
    PAIR_S,
    QUALITY,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.results.maintenance import maintain
from kshunt.backend.pipeline.results.stream_state import STREAM
from tests.support.pipeline import delivered
from tests.support.pipeline.light import made
from tests.support.pipeline.recorded import START_MS, Row, sample, throttled, time_of
from tests.support.pipeline.recorded_brokers import simulated_brokers, write_brokers
from tests.support.pipeline.spark import same
from tests.support.pipeline.streamed import KEPT, by_time, flushed, streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLOSED_S, TICK_S = 62, 5
KEYS = {
    RATES.name: ("rid", "tick"),
    STALLS.name: ("rid", "start"),
    ETA.name: ("tick", "rid", "operation_id"),
    MOVE_PAIRS.name: ("start", "source", "destination", "throttled"),
    THROTTLE_EFFECT.name: ("start", "direction", "broker", "permitted_bytes_per_s"),
    BROKER_LOAD.name: ("start", "broker"),
}


@dataclass(frozen=True, slots=True)
class Results:
    """One recording around the end of an hour, and what was made of it."""

    newest: datetime
    light: Path
    """By the thread of a backend, in batches of some files each."""
    by_turns: Path
    """By both: Spark first, then the thread, and Spark again."""
    filled: Path
    """By a backfill."""


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("light")
    rows = [later(row) for row in (*throttled(seed=23, replicas=16, seconds=900), *at_rest(900))]
    flushes = by_time(rows, 40)
    brokers = simulated_brokers(seed=9, brokers=3, seconds=900, every_s=20)
    write_brokers(folder, [later(row) for row in brokers])
    found = Results(
        max(row["at"] for row in rows), *(folder / n for n in ("light", "by turns", "filled"))
    )
    for number, some in enumerate(parts(flushes, 3)):
        flushed(folder, some, number=1 + 100 * number)
        if number % 2:
            made(folder, found.by_turns, files_most=3)
        else:
            streamed(spark, folder, found.by_turns)
    made(folder, found.light, files_most=4)
    period = check(folder, None, None)
    backfill(spark, folder, found.filled, period, SystemClock(), lambda table: None)
    return found


def at_rest(seconds: int) -> list[Row]:
    """A leader and a follower that keeps up."""
    return [
        sample(
            at,
            10 * at,
            rid=500 + broker,
            broker=broker,
            leader_log_end_offset=10 * at,
            leader_size_bytes=1_000 * at,
            in_isr=True,
            adding=False,
        )
        for at in range(0, seconds, 20)
        for broker in (1, 2)
    ]


def later(row: Row) -> Row:
    by = timedelta(minutes=52)
    return row | {name: row[name] + by for name in ("at", "leader_at") if name in row}


def parts(flushes: Sequence[list[Row]], count: int) -> list[Sequence[list[Row]]]:
    size = -(-len(flushes) // count)
    return [flushes[at : at + size] for at in range(0, len(flushes), size)]


def rows_in(folder: Path, table: str) -> list[dict[str, Any]]:
    return delivered.rows_in(folder, table, *KEYS[table])


def over(results: Results, table: str) -> list[dict[str, Any]]:
    """The rows of a backfill that are for good by the time of the newest sample."""
    ends = {
        ETA.name: ("tick", results.newest - timedelta(seconds=2 + TICK_S)),
        MOVE_PAIRS.name: ("start", results.newest - timedelta(seconds=PAIR_S + CLOSED_S)),
        BROKER_LOAD.name: ("start", time_of(START_MS + HOUR_MS - 1)),
        # Of an interval of five minutes, wherever in it something was copied first.
        THROTTLE_EFFECT.name: ("start", interval_ended(results.newest)),
    }
    rows = rows_in(results.filled, table)
    if table not in ends:
        return rows
    column, until = ends[table]
    return [row for row in rows if row[column] <= until]


def interval_ended(newest: datetime) -> datetime:
    closed_s = int(newest.timestamp()) - CLOSED_S
    return datetime.fromtimestamp(closed_s - closed_s % EFFECT_S, newest.tzinfo) - timedelta(
        milliseconds=1
    )


@pytest.mark.parametrize("table", KEYS)
def test_rows_are_those_of_a_backfill(results: Results, table: str) -> None:
    found = rows_in(results.light, table)
    assert found
    same(found, over(results, table))


@pytest.mark.parametrize("table", [RATES.name, STALLS.name])
def test_hours_are_equal_too_once_they_are_compacted(
    results: Results, table: str, tmp_path: Path
) -> None:
    dense = rows_in(results.filled, table)
    for folder in (results.light, results.by_turns, results.filled):
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy)
        # Without its state no stream may still write there.
        shutil.rmtree(copy / STREAM, ignore_errors=True)
        done = maintain(copy, KEPT, lambda: START_MS + 9 * HOUR_MS)
        assert not done.problems
        expected = rows_in(tmp_path / results.light.name, table)
        assert len(expected) < len(dense) - 80 or table != RATES.name
        same(rows_in(copy, table), expected)


@pytest.mark.parametrize("table", [RATES.name, STALLS.name, ETA.name, MOVE_PAIRS.name])
def test_the_jobs_take_turns_and_rows_are_those_of_a_backfill(results: Results, table: str) -> None:
    same(rows_in(results.by_turns, table), over(results, table))


def test_what_is_odd_is_counted_as_often(results: Results) -> None:
    quality = delivered.rows_in(results.filled, QUALITY.name, "expectation")
    expected = {r["expectation"]: r["violations"] for r in quality if r["of"] != "brokers"}
    counted = dict.fromkeys(expected, 0)
    for row in delivered.rows_in(results.light, QUALITY.name, "expectation"):
        counted[row["expectation"]] = counted.get(row["expectation"], 0) + row["violations"]
    assert counted.pop("in_time") == counted.pop("there") == 0
    # What is not closed yet has not been compared with what came before it.
    assert counted["log_grows"] > 0
    assert all(expected[name] - 2 <= n <= expected[name] for name, n in counted.items())
