"""Effect of throttles and load of brokers are the same from a stream as from a backfill."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, EFFECT_S, THROTTLE_EFFECT
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.jobs.stream import CountedBatch, Streaming, begun, held, stream
from kshunt.backend.pipeline.jobs.stream_batches import BatchContext
from kshunt.backend.pipeline.jobs.stream_sources import FolderSource
from tests.support.pipeline.delivered import rows_in
from tests.support.pipeline.recorded import START_MS, throttled, time_of
from tests.support.pipeline.recorded_brokers import simulated_brokers, write_brokers
from tests.support.pipeline.spark import same
from tests.support.pipeline.streamed import by_time, flushed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLOSED_S = 62
"""So long after its end an interval is made."""
KEYS = {
    THROTTLE_EFFECT.name: ("start", "direction", "broker", "permitted_bytes_per_s"),
    BROKER_LOAD.name: ("start", "broker"),
}


def test_intervals_that_are_over_are_those_of_a_backfill(
    spark: SparkSession, tmp_path: Path
) -> None:
    by = timedelta(minutes=52)
    rows = [
        row | {name: row[name] + by for name in ("at", "leader_at")}
        for row in throttled(9, replicas=12, seconds=900)
    ]
    flushed(tmp_path, by_time(rows, 40))
    brokers = simulated_brokers(seed=9, brokers=3, seconds=900, every_s=20)
    write_brokers(tmp_path, [row | {"at": row["at"] + by} for row in brokers])
    once, filled, clock = tmp_path / "streamed", tmp_path / "filled", SystemClock()
    done: list[CountedBatch] = []
    source = FolderSource(tmp_path, clock, 8)
    with held(once):
        job = Streaming(
            BatchContext(spark, once, clock, sieve=source.sieve),
            source,
            begun(once),
            done.append,
            threading.Event(),
        )
        stream(job, once, 1.0, once=True)
    assert len(done) > 1
    backfill(spark, tmp_path, filled, check(tmp_path, None, None), clock, lambda made: None)
    newest = max(row["at"] for row in rows)
    over = {THROTTLE_EFFECT.name: newest - timedelta(seconds=EFFECT_S + CLOSED_S)}
    over[BROKER_LOAD.name] = time_of(START_MS + HOUR_MS - 1)
    for table, order in KEYS.items():
        found = rows_in(once, table, *order)
        assert found
        # An interval that begins late is over when its five minutes are.
        last = max(row["start"] for row in found)
        assert last <= over[table] + timedelta(seconds=EFFECT_S)
        expected = [row for row in rows_in(filled, table, *order) if row["start"] <= last]
        same(found, expected)
