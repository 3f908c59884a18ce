"""Effect of throttles and load of brokers, by hand and against loops over lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, RATES, THROTTLE_EFFECT
from kshunt.backend.pipeline.samples.broker_fitness import split_brokers
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.tables.broker_load import broker_load
from kshunt.backend.pipeline.tables.throttle_effect import throttle_effect
from tests.support.pipeline.load_reference import reference_effects, reference_loads
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, throttled, time_of
from tests.support.pipeline.recorded_brokers import broker_sample, broker_table, simulated_brokers
from tests.support.pipeline.spark import rows_of, same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EFFECT_KEY = ("start", "direction", "broker", "permitted_bytes_per_s")


def as_rates(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Rows in the columns of `rates`; what the reference does not give is null."""
    names = {name: [row.get(name) for row in rows] for name in RATES.names}
    frame = spark.createDataFrame(pa.table(names))
    schema = struct_of(RATES.columns)
    return frame.select(*(frame[f.name].cast(f.dataType).alias(f.name) for f in schema))


# Throttles


def test_effects_are_those_of_the_reference(spark: SparkSession) -> None:
    rates = reference_rates(throttled(5, replicas=60, seconds=900))
    found = rows_of(throttle_effect(as_rates(spark, rates)), *EFFECT_KEY)
    expected = sorted(reference_effects(rates), key=lambda row: [row[name] for name in EFFECT_KEY])
    same(found, [{name: row[name] for name in THROTTLE_EFFECT.names} for row in expected])
    # The recording is one in which everything happened.
    assert len(found) > 10
    assert sum(row["left_isr"] for row in found) > 1
    assert sum(row["joined_isr"] for row in found) > 1
    assert {row["direction"] for row in found} == {"leader", "follower"}
    assert any(row["steady_lag_change_s"] for row in found)
    assert any(row["held_elsewhere"] for row in found)


def copy(rate: int, share: float = 1.0, **others: Any) -> list[Row]:
    """A replica of 100 B a message that is copied with a share of the rate, for five minutes."""
    limits = {"follower_throttle_bytes_per_s": rate}
    return [sample(at, int(at * share * rate / 100), **limits, **others) for at in range(0, 300, 5)]


def steady(behind_s: Sequence[float] = (0.0,), **others: Any) -> list[Row]:
    """A follower on broker 2 in sync, written to by 100 messages/s and so far behind by turns."""
    return [
        sample(
            at,
            round(100 * (at - behind_s[len(behind_s) * at // 300])) + 9_000,
            rid=7,
            leader=3,
            leader_log_end_offset=100 * at + 9_000,
            leader_size_bytes=10_000 * at + 900_000,
            **{"in_isr": True, "adding": False, **others},
        )
        for at in range(0, 300, 5)
    ]


def left_behind(cause: str | None) -> list[Row]:
    """A steady follower that is out of the ISR after 100 s."""
    out = {"in_isr": False, "cause": cause}
    return [row if row["at"] < time_of(START_MS + 100_000) else row | out for row in steady()]


def twice() -> list[Row]:
    """A copy of ten minutes, and a follower that leaves the ISR during it."""
    later = [row | {"at": row["at"] + timedelta(seconds=300)} for row in copy(20_000)]
    follower = {"rid": 7, "leader": 3, "adding": False}
    return [
        *copy(20_000),
        *later,
        *(sample(at, in_isr=True, **follower) for at in range(50, 300, 60)),
        *(sample(at, **follower) for at in range(310, 600, 60)),
    ]


def changed() -> list[Row]:
    rows = copy(20_000)
    return [row | {"follower_throttle_bytes_per_s": 40_000} for row in rows[:30]] + rows[30:]


SCENES: Mapping[str, Sequence[Row]] = {
    "binds": [*copy(20_000), *steady()],
    "lags": [*copy(20_000), *steady((1, 3, 6, 10))],
    "left": [*copy(20_000), *left_behind(None)],
    "lost its leader": [*copy(20_000), *left_behind("SOURCE_UNREACHABLE")],
    "twice": twice(),
    "slow link": copy(20_000, 0.3),
    "held elsewhere": copy(20_000, 0.3, leader_throttle_bytes_per_s=6_000),
    "paused": copy(1_000),
    "short": copy(20_000)[:3],
    "changed": changed(),
}
"""Each among brokers of its own."""


@pytest.fixture(scope="module")
def effects(spark: SparkSession) -> Mapping[str, list[dict[str, Any]]]:
    """The rows of the followers' side of each scene; of the leaders' under `NAME, leader`."""
    samples = [
        row | {name: row[name] + 100 * number for name in ("rid", "broker", "leader")}
        for number, rows in enumerate(SCENES.values())
        for row in rows
    ]
    found = rows_of(throttle_effect(as_rates(spark, reference_rates(samples))), "start")
    return {
        f"{name}{suffix}": [
            row for row in found if row["broker"] // 100 == number and row["direction"] == direction
        ]
        for number, name in enumerate(SCENES)
        for direction, suffix in (("follower", ""), ("leader", ", leader"))
    }


Effects = Mapping[str, list[dict[str, Any]]]


def test_a_throttle_that_binds_is_raised_while_steady_followers_keep_up(effects: Effects) -> None:
    (found,) = effects["binds"]
    assert (found["copies"], found["steady"], found["left_isr"]) == (1, 1, 0)
    assert found["achieved_bytes_per_s"] == pytest.approx(20_000)
    assert found["share_used"] == pytest.approx(1.0)
    assert found["steady_lag_p95_s"] == 0
    assert (found["advice"], found["recommended_bytes_per_s"]) == ("raise", 30_000)
    assert found["reason"] == "the throttle is the limit, and steady followers keep up"


def test_it_is_lowered_when_the_lag_of_steady_followers_grew(effects: Effects) -> None:
    (found,) = effects["lags"]
    assert found["steady_lag_change_s"] == pytest.approx(6, abs=0.1)
    assert (found["advice"], found["reason"]) == ("lower", "steady lag grew")
    assert found["recommended_bytes_per_s"] == 15_000


def test_it_is_lowered_when_a_steady_follower_left_the_isr_by_no_fault_of_its_leader(
    effects: Effects,
) -> None:
    (found,) = effects["left"]
    assert (found["left_isr"], found["advice"]) == (1, "lower")
    (found,) = effects["lost its leader"]
    assert (found["left_isr"], found["advice"]) == (1, "raise")


def test_a_follower_that_leaves_between_two_pieces_of_time_is_counted_once(
    effects: Effects,
) -> None:
    assert [row["left_isr"] for row in effects["twice"]] == [0, 1]


def test_it_says_where_the_limit_is_if_the_throttle_is_not_it(effects: Effects) -> None:
    (found,) = effects["slow link"]
    assert (found["advice"], found["recommended_bytes_per_s"]) == ("no effect", 20_000)
    (found,) = effects["held elsewhere"]
    assert (found["held_elsewhere"], found["advice"]) == (1.0, "keep")
    assert found["reason"] == "the throttle at the other end holds the copies"
    (found,) = effects["held elsewhere, leader"]
    assert found["advice"] == "raise"


def test_a_rate_that_only_holds_and_one_hardly_seen_are_kept(effects: Effects) -> None:
    reasons = [row["reason"] for name in ("paused", "short") for row in effects[name]]
    assert reasons == ["it only holds the copies, as in a pause", "there are too few samples of it"]


def test_rates_of_one_piece_of_time_have_a_row_each(effects: Effects) -> None:
    found = effects["changed"]
    assert [row["permitted_bytes_per_s"] for row in found] == [40_000, 20_000]
    assert [row["seconds"] for row in found] == [145, 150]
    assert found[0]["end"] < found[1]["start"]


# Brokers


def loads(spark: SparkSession, brokers: Sequence[Row], rates: Sequence[Row] = ()) -> list[Row]:
    frame = spark.createDataFrame(broker_table(brokers))
    if rates:
        of_rates = as_rates(spark, rates)
    else:
        of_rates = spark.createDataFrame([], struct_of(RATES.columns))
    return rows_of(broker_load(frame, of_rates), "start", "broker")


def test_loads_are_those_of_the_reference(spark: SparkSession) -> None:
    brokers = simulated_brokers(seed=3, brokers=3, seconds=26 * 3600, every_s=200)
    samples = simulated(seed=4, replicas=20, seconds=600)
    later = timedelta(minutes=55)
    samples = [row | {name: row[name] + later for name in ("at", "leader_at")} for row in samples]
    for row in samples:
        row["leader"] = row["broker"] if row["rid"] % 3 == 0 else row["leader"]
    rates = reference_rates(samples)
    found = loads(spark, brokers, rates)
    same(found, [{n: r[n] for n in BROKER_LOAD.names} for r in reference_loads(brokers, rates)])
    assert len(found) == 3 * 26
    assert any(row["produced_bytes_per_s"] for row in found)
    assert any(row["replicated_bytes_per_s"] for row in found)
    assert {row["full_in_s"] is None for row in found} == {True, False}


def test_a_disk_that_grows_says_when_it_is_full(spark: SparkSession) -> None:
    grows = [
        broker_sample(at, disk_usable_bytes=500_000_000_000 - 1_000_000 * at)
        for at in range(0, 3600, 60)
    ]
    rests = [broker_sample(at, 2, leaders=30) for at in range(0, 3600, 60)]
    first, second = loads(spark, [*grows, *rests])
    assert first["growth_bytes_per_s"] == pytest.approx(1_000_000)
    assert first["full_in_s"] == pytest.approx((500_000 - 3540), rel=1e-6)
    assert (second["growth_bytes_per_s"], second["full_in_s"]) == (0, None)
    assert (first["leader_share"], second["leader_share"]) == (0.25, 0.75)
    # 2026-11-22 is a Sunday.
    assert first["hour_of_week"] == 6 * 24 + 3


def test_rows_of_brokers_are_parted_and_counted(spark: SparkSession) -> None:
    rows = [
        *(broker_sample(at) for at in range(0, 100, 5)),
        broker_sample(5, log_bytes=None),
        broker_sample(7, disk_usable_bytes=-1),
        broker_sample(8, leaders=None),
        broker_sample(-10 * 86_400),
        broker_sample(9, disk_usable_bytes=2 * 10**12),
        broker_sample(-60, 2),
    ]
    now_ms = START_MS + 200_000
    split = split_brokers(
        spark.createDataFrame(broker_table(rows)), TimeBounds.of(START_MS, now_ms), START_MS
    )
    good = rows_of(split.good, "at", "broker")
    assert len(good) == 22
    assert all(row["log_bytes"] is not None for row in good)
    counts = {name: count for name, count in split.counts().items() if count}
    assert counts == {
        "rows": 25,
        "keys_known": 1,
        "time_plausible": 1,
        "sizes_not_negative": 1,
        "unique": 1,
        "disk_adds_up": 1,
    }
    bad = rows_of(split.quarantined, "at")
    assert [row["reasons"] for row in bad] == ["time_plausible", "sizes_not_negative", "keys_known"]
