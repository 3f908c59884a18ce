"""A folder of results after `kill -9` at many moments has the rows that a backfill makes.

Hours of the killed job that are not compacted yet are compacted first, as those of the backfill.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    EFFECT_S,
    ETA,
    MOVE_PAIRS,
    PAIR_S,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.roll_up_columns import ROLL_UPS
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.results.maintenance import maintain
from kshunt.backend.pipeline.results.stream_state import STREAM
from tests.support.clocks import StoppedClock
from tests.support.pipeline import delivered
from tests.support.pipeline.killed.life import killed
from tests.support.pipeline.recorded import START_MS, Row, time_of
from tests.support.pipeline.recorded_days import DAYS, KEPT, SECONDS, record
from tests.support.pipeline.spark import same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

END_MS = START_MS + DAYS[-1] * DAY_MS + SECONDS * 1000
"""When the recording ends."""
NOW_MS = END_MS + HOUR_MS
CLOSED_S, TICK_S = 62, 5
ENDS_S = {ETA.name: CLOSED_S, MOVE_PAIRS.name: PAIR_S, THROTTLE_EFFECT.name: EFFECT_S}
"""A backfill makes rows of what has not ended. Those that are so young are not compared."""
TICKS = (RATES, STALLS, ETA, MOVE_PAIRS, THROTTLE_EFFECT, BROKER_LOAD)
BY_HOUR = tuple(one.by_hour for one in ROLL_UPS)


@dataclass(frozen=True, slots=True)
class Lives:
    """Two folders of results of one recording, maintained to their end."""

    killed: Path
    filled: Path


@pytest.fixture(scope="module")
def lives(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    folder = tmp_path_factory.mktemp("lives")
    recording, results = folder / "recording", folder / "killed" / "results"
    record(recording)
    killed(recording, results)
    # Without its state no stream may still write there.
    shutil.rmtree(results / STREAM)
    filled = folder / "filled"
    clock = StoppedClock(NOW_MS)
    backfill(spark, recording, filled, check(recording, None, None), clock, lambda table: None)
    for one in (results, filled):
        assert not maintain(one, KEPT, clock.now_ms).problems
    return Lives(results, filled)


@pytest.mark.parametrize("table", TICKS, ids=lambda table: table.name)
def test_rows_are_those_of_a_backfill(lives: Lives, table: Any) -> None:
    until = time_of(END_MS) - timedelta(seconds=CLOSED_S + ENDS_S.get(table.name, 0))
    if table is BROKER_LOAD:
        until = time_of(END_MS - END_MS % HOUR_MS) - timedelta(milliseconds=1)
    found, expected = (
        [row for row in rows_of(folder, table.name) if row[table.hour_of] <= until]
        for folder in (lives.killed, lives.filled)
    )
    assert found
    same(found, expected)


@pytest.mark.parametrize("table", BY_HOUR, ids=lambda table: table.name)
def test_roll_ups_are_those_of_a_backfill(lives: Lives, table: Any) -> None:
    until = time_of(END_MS - END_MS % HOUR_MS)
    found, expected = (
        [row for row in rows_of(folder, table.name) if row["start"] < until]
        for folder in (lives.killed, lives.filled)
    )
    # Those of the first day have outlived their rows.
    assert len({row["day"] for row in found}) == len(DAYS)
    same(found, expected)


def rows_of(results: Path, table: str) -> list[Row]:
    """All rows, in an order that each of their values is part of; no row names a run."""
    rows = delivered.rows_in(results, table)
    for row in rows:
        row.pop("made_of", None)
    return delivered.by_every_value(rows)
