"""Stalls, pairs of brokers and quality, by hand and against loops over lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kshunt.backend.domain.pipeline.result_columns import GAP_S, RATES
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.samples.row_fitness import quarantined
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.tables.move_pairs import move_pairs
from kshunt.backend.pipeline.tables.rates import counted, step
from kshunt.backend.pipeline.tables.rates import rows_of as rates_of
from kshunt.backend.pipeline.tables.stalls import islands, stalls, state_of
from kshunt.backend.pipeline.tables.stalls import rows_of as stalls_of
from tests.support.pipeline.rates_reference import reference_rates, reference_stalls, tick_after
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, table, time_of
from tests.support.pipeline.spark import carried, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def as_rates(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Rows in the columns of `rates`; what the reference does not give is null."""

    schema = struct_of(RATES.columns)
    names = {name: [row.get(name) for row in rows] for name in RATES.names}
    frame = spark.createDataFrame(pa.table(names))
    return frame.select(*(frame[f.name].cast(f.dataType).alias(f.name) for f in schema))


# Stalls


def of_stalls(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [
        tuple(row[name] for name in ("rid", "start", "end", "open", "cause"))
        for row in rows_of(frame, "rid", "start")
    ]


def test_stalls_are_those_of_the_reference_wherever_they_are_cut(spark: SparkSession) -> None:

    rates = reference_rates(simulated(seed=5, replicas=60, seconds=900))
    cut = tick_after(rates, 0.4)
    found: list[tuple[Any, ...]] = []
    state = None
    for part in ([r for r in rates if r["at"] < cut], [r for r in rates if r["at"] >= cut]):
        newest_ms = round(max(row["at"] for row in part).timestamp() * 1000)
        made = islands(as_rates(spark, part), newest_ms, state)
        last = part[-1] is rates[-1]
        found += of_stalls(stalls_of(made, ended_only=not last))
        state = None if last else carried(spark, state_of(made))
    expected = reference_stalls(rates)
    assert sorted(found) == expected
    assert len(expected) > 30
    assert {row[3] for row in expected} == {True, False}


def test_a_stall_says_what_it_began_and_ended_with(spark: SparkSession) -> None:

    causes = [None, "THROTTLE_TOO_LOW", "THROTTLE_TOO_LOW", "TOO_SHORT", "NONE"]
    rows = [sample(0, 40, operation_id="op")]
    rows += [
        sample(5 + 5 * i, 50, cause=cause, operation_id="op", leader=None if i == 2 else 1)
        for i, cause in enumerate(causes)
    ]
    rows += [sample(30, 60), sample(35, 60, rid=2, in_isr=True, adding=False)]
    rates = [row | {"remaining_messages": None} for row in rows]
    (found,) = rows_of(stalls(as_rates(spark, rates), START_MS + 35_000), "rid")
    assert found == {
        "start": time_of(START_MS + 5_000),
        "end": time_of(START_MS + 25_000),
        "seconds": 20.0,
        "open": False,
        "rid": 1,
        "topic": "t",
        "partition": 0,
        "broker": 2,
        "leader": 1,
        "lag_start_messages": 999_950,
        "lag_end_messages": 999_950,
        "lag_start_bytes": 99_995_000,
        "lag_end_bytes": 99_995_000,
        "cause": "throttle_too_low",
        "operation_id": "op",
    }


# Pairs of brokers


def test_pairs_have_quantiles_of_what_was_copied(spark: SparkSession) -> None:

    rate, throttle = "catch_up_30s_bytes_per_s", "follower_throttle_bytes_per_s"
    copied, nothing = {"copied_from": 1}, {rate: None}
    rows = [sample(i, 0) | copied | {rate: 100.0 * i, "copied_bytes": i} for i in range(11)]
    rows += [sample(i, 0, **{throttle: 5, "broker": 3}) | copied | {rate: 7.0} for i in range(2)]
    rows += [sample(300, 0) | copied | {rate: 1.0, "copied_bytes": 4}]
    # One that arrives as the leadership changes has bytes and no rate.
    arrived = sample(301, 0, in_isr=True, adding=False)
    rows += [arrived | copied | nothing | {"copied_bytes": 6}]
    rows += [sample(1, 0) | copied | nothing, sample(1, 0, in_isr=True, adding=False) | {rate: 9.0}]
    found = rows_of(move_pairs(as_rates(spark, rows)), "start", "destination")
    start = time_of(START_MS)
    assert [tuple(row.values()) for row in found] == [
        (start, 1, 2, False, 11, 55, 100.0, 500.0, 900.0),
        (start, 1, 3, True, 2, 0, 7.0, 7.0, 7.0),
        (start + timedelta(minutes=5), 1, 2, False, 1, 10, 1.0, 1.0, 1.0),
    ]


# Quality


def test_bad_rows_are_set_aside_with_their_reasons_and_odd_ones_are_counted(
    spark: SparkSession,
) -> None:
    good = [sample(at_s, at_s) for at_s in (0, 5, 10)]
    bad = [
        sample(15, 15, topic=None, lag_messages=-1),
        sample(20, 20, size_bytes=-5),
        sample(25, -25),
        sample(400 * 86_400, 1),
        sample(-60 * 86_400, 1),
    ]
    odd = [
        sample(10, 10, follower_throttle_bytes_per_s=1),  # the third row once more
        sample(30, 4),  # shorter than before
        sample(40, 2_000_000),  # beyond its leader
        sample(45, 2_000_001, leader=3),  # another leader's end is another matter
        sample(400, 2_000_002, leader=3, leader_log_end_offset=2_000_002),  # after a gap
    ]
    early = [sample(-600, 0), sample(-300, 0, size_bytes=-1)]
    frame = spark.createDataFrame(table([*good, *bad, *odd, *early]))
    bounds = TimeBounds.of(START_MS, START_MS + 3_600_000)
    checks = Checks(bounds.earliest_ms, bounds.latest_ms, 0, START_MS, GAP_S * 1000)
    stepped = counted(step(frame, checks=checks))
    assert rates_of(stepped.step).agg({"samples": "sum"}).toArrow().to_pylist() == [
        {"sum(samples)": 8}
    ]
    assert stepped.counts() == {
        "rows": 13,
        "keys_known": 1,
        "time_plausible": 2,
        "lag_not_negative": 1,
        "sizes_not_negative": 2,
        "offsets_not_negative": 1,
        "unique": 1,
        "not_ahead_of_leader": 1,
        "log_grows": 1,
        "no_gap": 2,
    }
    reasons = [row["reasons"] for row in rows_of(quarantined(frame, bounds, START_MS), "at")]
    assert reasons == [
        "time_plausible",
        "keys_known,lag_not_negative",
        "sizes_not_negative",
        "sizes_not_negative,offsets_not_negative",
        "time_plausible",
    ]
