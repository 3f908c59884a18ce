"""Rates by Spark are those of loops over lists, wherever the samples are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.pipeline.tables.rates import rates, state_of, step
from kshunt.backend.pipeline.tables.rates import rows_of as rates_of
from tests.support.pipeline.rates_reference import reference_rates, tick_after
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, table, time_of
from tests.support.pipeline.spark import carried, rows_of, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDED: Mapping[str, Sequence[Row]] = {
    "steady": [sample(at_s, 200 * at_s) for at_s in range(0, 605, 5)],
    "retention": [
        sample(at_s, 200 * at_s, size_bytes=20_000 * at_s - (900_000 if at_s >= 60 else 0))
        for at_s in range(0, 125, 5)
    ],
    "broken": [
        *(sample(at_s, 200 * at_s) for at_s in range(0, 60, 5)),
        *(sample(at_s, 200 * at_s - 5_000) for at_s in range(60, 120, 5)),
        *(sample(at_s, 300 * at_s, leader=3) for at_s in range(120, 180, 5)),
    ],
    "gaps": [sample(at_s, 10 * at_s) for at_s in (0, 60, 180, 240, 400, 460)],
}
"""What befell a replica; each is told by its place here as `rid`."""


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Mapping[str, list[dict[str, Any]]]:
    """The rates of each of those."""
    rows = [row | {"rid": rid} for rid, some in enumerate(RECORDED.values()) for row in some]
    found = rows_of(rates(spark.createDataFrame(table(rows))), "rid", "tick")
    return {name: [row for row in found if row["rid"] == rid] for rid, name in enumerate(RECORDED)}


def in_columns(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in RATES.names} for row in rows]


def test_each_replica_and_tick_has_the_rates_of_the_reference(spark: SparkSession) -> None:

    rows = simulated(seed=11, replicas=40, seconds=900)
    found = rows_of(rates(spark.createDataFrame(table(rows))), "rid", "tick")
    same(found, in_columns(reference_rates(rows)))
    # The recording is one to which everything happened.
    assert len({row["segment_start"] for row in found}) > 80
    assert any(row["catch_up_30s_bytes_per_s"] is None for row in found)
    assert max(row["samples"] for row in found) >= 5


@pytest.mark.parametrize(("seed", "shares"), [(1, (0.3, 0.31)), (2, (0.75,))])
def test_parts_with_the_state_handed_on_are_the_whole(
    spark: SparkSession, seed: int, shares: tuple[float, ...]
) -> None:

    rows = simulated(seed, replicas=40, seconds=700)
    cuts = [tick_after(rows, share) for share in shares]
    found: list[dict[str, Any]] = []
    state = None
    for i in range(len(cuts) + 1):
        part = [row for row in rows if sum(row["at"] >= cut for cut in cuts) == i]
        annotated = step(spark.createDataFrame(table(part)), state).persist()
        found += rows_of(rates_of(annotated), "rid", "tick")
        newest_ms = round(max(row["at"] for row in part).timestamp() * 1000)
        if i < len(cuts):
            state = carried(spark, state_of(annotated, newest_ms))
        annotated.unpersist()
    found.sort(key=lambda row: (row["rid"], row["tick"]))
    same(found, in_columns(reference_rates(rows)))


def test_a_steady_copy_has_its_rate_at_once_and_over_each_window(
    made: Mapping[str, list[dict[str, Any]]],
) -> None:
    found = made["steady"]
    assert found[0]["catch_up_30s_messages_per_s"] is None
    assert {row["catch_up_30s_messages_per_s"] for row in found[1:]} == {200.0}
    assert {row["catch_up_5m_bytes_per_s"] for row in found[1:]} == {20_000.0}
    assert {row["produced_30s_bytes_per_s"] for row in found[1:]} == {0.0}
    spans = [row["span_30s_s"] for row in found[20:]]
    assert (min(spans), max(spans)) == (30, 35)
    assert found[-1]["remaining_messages"] == 1_000_000 - 120_000
    assert {row["advanced_bytes"] for row in found[1:]} == {100_000}


def test_retention_makes_no_rate_negative_and_none_unknown(
    made: Mapping[str, list[dict[str, Any]]],
) -> None:
    found = made["retention"][1:]
    assert {round(row["catch_up_30s_bytes_per_s"]) for row in found} == {20_000}
    assert {row["advanced_bytes"] for row in found} == {100_000}


def test_no_rate_reaches_across_a_truncation_or_another_leader(
    made: Mapping[str, list[dict[str, Any]]],
) -> None:
    found = made["broken"]
    starts = sorted({row["segment_start"] for row in found})
    assert starts == [time_of(START_MS + s * 1000) for s in (0, 60, 120)]
    after = {row["catch_up_30s_messages_per_s"] for row in found if row["at"] > starts[2]}
    assert after == {300.0}
    assert [row["advanced_messages"] is None for row in found].count(True) == 3


def test_a_gap_ends_what_is_known_and_a_missed_minute_does_not(
    made: Mapping[str, list[dict[str, Any]]],
) -> None:
    found = made["gaps"]
    assert [row["catch_up_30s_messages_per_s"] for row in found] == [None, 10, 10, 10, None, 10]
    assert [row["span_30s_s"] for row in found] == [None, 60, 120, 60, None, 60]
