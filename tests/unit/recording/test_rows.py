"""Samples of a snapshot: what is due, what is known, and what is null."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.pipeline.sample_columns import (
    BROKER_SAMPLES,
    REPLICA_SAMPLES,
    replica_ids,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.telemetry.recording.due_samples import AFTER_MOVE_S, DueSamples, Layout
from kshunt.backend.telemetry.recording.json_rows import json_rows
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.sample_rows import broker_rows, replica_rows
from kshunt.backend.telemetry.recording.schema import SCHEMAS
from tests.support.recording.samples import (
    START_MS,
    TOPICS,
    Row,
    drawn,
    later,
    many,
    snapshot,
    table_of,
)

OPERATIONS = {TopicPartition("a", 0): "op-1", TopicPartition("b.c", 2): "op-2"}


def every_row(one: Snapshot) -> list[dict[str, Any]]:
    """Samples of all rows, in the snapshot's order."""
    rows = np.arange(len(one.replicas))
    found = replica_rows(one, Layout.of(one), rows, OPERATIONS)
    found.validate(full=True)
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def known(value: int) -> int | None:
    return None if value < 0 else value


@given(drawn())
def test_what_is_not_known_is_null_and_everything_else_is_itself(one: Snapshot) -> None:
    rows = one.replicas
    for place, sample in enumerate(every_row(one)):
        assert sample["log_end_offset"] == known(int(rows.log_end_offset[place]))
        assert sample["size_bytes"] == known(int(rows.size_bytes[place]))
        assert sample["lag_messages"] == known(int(rows.lag_messages[place]))
        assert sample["lag_bytes"] == known(int(rows.lag_bytes[place]))
        assert sample["leader"] == known(int(rows.leader[place]))
        cause = Cause(int(rows.cause[place]))
        assert sample["cause"] == (None if cause is Cause.NONE else cause.name)
        for name in ("in_isr", "adding", "removing"):
            assert sample[name] == bool(getattr(rows, name)[place])


@given(drawn())
def test_a_leaders_facts_stand_on_each_row_of_its_partition(one: Snapshot) -> None:
    rows = one.replicas
    for place, sample in enumerate(every_row(one)):
        leader = leader_row(one, place)
        expected = [
            UNKNOWN if leader is None else int(column[leader])
            for column in (rows.sampled_ms, rows.log_end_offset, rows.size_bytes)
        ]
        at = sample["leader_at"]
        assert (None if at is None else round(at.timestamp() * 1000)) == known(expected[0])
        assert sample["leader_log_end_offset"] == known(expected[1])
        assert sample["leader_size_bytes"] == known(expected[2])


def leader_row(one: Snapshot, place: int) -> int | None:
    rows = one.replicas
    same = (rows.topic_index == rows.topic_index[place]) & (rows.partition == rows.partition[place])
    found = np.flatnonzero(same & (rows.broker == rows.leader[place]))
    return int(found[0]) if len(found) else None


@given(drawn())
def test_a_throttle_is_on_the_rows_that_it_lists_and_on_no_leader(one: Snapshot) -> None:
    rows, rates = one.replicas, one.throttles.rates
    for place, sample in enumerate(every_row(one)):
        leader, broker = leader_row(one, place), int(rows.broker[place])
        sending = fetching = None
        if leader != place:
            if leader is not None and rows.leader_throttled[leader]:
                found = rates.get(int(rows.broker[leader]))
                sending = found and found.rate.leader_bytes_per_s
            if rows.follower_throttled[place]:
                found = rates.get(broker)
                fetching = found and found.rate.follower_bytes_per_s
        assert sample["leader_throttle_bytes_per_s"] == sending
        assert sample["follower_throttle_bytes_per_s"] == fetching


@given(drawn())
def test_rid_stands_for_topic_partition_and_broker(one: Snapshot) -> None:
    for sample in every_row(one):
        alone = replica_ids(
            [sample["topic"]],
            np.array([0]),
            np.array([sample["partition"]]),
            np.array([sample["broker"]]),
        )
        assert sample["rid"] == int(alone[0])
        partition = TopicPartition(sample["topic"], sample["partition"])
        assert sample["operation_id"] == OPERATIONS.get(partition)


def test_rids_are_those_that_earlier_recordings_have() -> None:
    """Of orders-1 on broker 2, orders-2 on broker 1, and pay-0 on broker 7."""
    topic, partition, broker = np.array([0, 0, 1]), np.array([1, 2, 0]), np.array([2, 1, 7])
    assert replica_ids(["orders", "pay"], topic, partition, broker).tolist() == [
        -4_949_240_293_681_111_663,
        5_795_064_799_864_040_061,
        2_479_983_654_016_718_127,
    ]


@given(drawn(), st.lists(st.sampled_from([0.0, 0.5, 1.0, 9.0, 61.0, -3.0]), max_size=5))
def test_a_due_row_appears_once_and_only_when_it_was_reported(
    one: Snapshot, steps: list[float]
) -> None:
    due, last = DueSamples(60), dict[int, int]()
    for step in [0.0, *steps]:
        one = later(one, step) if step else one
        layout, rows = due.of(one)
        assert len(np.unique(rows)) == len(rows)
        reported = one.replicas.sampled_ms
        assert (reported[rows] >= 0).all()
        for row in rows:
            rid, at = int(layout.rid[row]), int(reported[row])
            assert last.get(rid) != at
            last[rid] = at
    never = {int(layout.rid[row]) for row in np.flatnonzero(one.replicas.sampled_ms >= 0)}
    assert never <= last.keys(), "whatever was reported is recorded at once, the first time"


def rows_due(due: DueSamples, one: Snapshot) -> int:
    return len(due.of(one)[1])


def test_what_moves_is_due_each_time_and_the_rest_once_a_minute() -> None:
    due = DueSamples(60)
    resting, moving = many(50, moving=False), many(50)
    assert rows_due(due, resting) == 100
    counts = [rows_due(due, resting := later(resting, 1)) for _ in range(60)]
    assert sum(counts) == 100
    assert max(counts) < 20, "they are spread over the minute"
    moving = later(moving, 60)
    counts = [rows_due(due, moving := later(moving, 1)) for _ in range(5)]
    assert counts == [100] * 5


def test_a_partition_is_due_for_a_while_after_its_move() -> None:
    due = DueSamples(3_600)
    last = many(1)
    assert rows_due(due, last) == 2
    ended = later(many(1, moving=False), 0)
    counts = []
    for _ in range(15):
        ended = later(ended, 1)
        counts.append(rows_due(due, ended))
    assert counts[: int(AFTER_MOVE_S)] == [2] * int(AFTER_MOVE_S)
    assert sum(counts[int(AFTER_MOVE_S) :]) <= 2


def test_what_was_recorded_is_remembered_when_replicas_come_and_go() -> None:
    due, before = DueSamples(3_600), many(5, moving=False)
    assert rows_due(due, before) == 10
    new = Row(1, 0, 7, 7)
    kept = [Row(0, number, broker, 0) for number in range(1, 5) for broker in (0, 1)]
    assert rows_due(due, snapshot([*kept, new])) == 1, "the new one alone"
    assert rows_due(due, snapshot([])) == 0
    assert rows_due(due, snapshot([*kept, new])) == 9, "after nothing was there, all are new"


@pytest.mark.parametrize("jump_s", [-7_200, 7_200])
def test_rows_keep_their_own_time_where_the_clock_jumps(jump_s: int) -> None:
    due, before = DueSamples(60), many(3)
    due.of(before)
    after = later(before, jump_s)
    layout, rows = due.of(after)
    times = replica_rows(after, layout, rows, {})["at"].cast(pa.int64()).to_pylist()
    assert times == [START_MS + jump_s * 1000] * 6


# Brokers


@given(drawn())
def test_a_brokers_sums_are_of_what_is_known(one: Snapshot) -> None:
    found = broker_rows(one)
    found.validate(full=True)
    rows = one.replicas
    assert found["broker"].to_pylist() == sorted(one.brokers)
    for sample in found.to_pylist():
        mine, led = rows.broker == sample["broker"], rows.leader == sample["broker"]
        assert sample["replicas"] == mine.sum()
        assert sample["leaders"] == (mine & led).sum()
        assert sample["preferred_leaders"] == (mine & (rows.position == 0)).sum()
        behind = ~rows.in_isr
        size, lag = rows.size_bytes, rows.lag_bytes
        assert sample["log_bytes"] == expected(mine, size, size >= 0)
        assert sample["lag_in_bytes"] == expected(mine & behind, lag, lag >= 0)
        assert sample["lag_out_bytes"] == expected(led & behind, lag, lag >= 0)
        fetched = np.maximum(rows.fetched_bytes_per_s, 0.0)
        finite = np.isfinite(rows.fetched_bytes_per_s)
        assert sample["in_bytes_per_s"] == expected(mine & rows.adding, fetched, finite)
        assert sample["out_bytes_per_s"] == expected(led & rows.adding, fetched, finite)


def expected(which: Any, values: Any, is_known: Any) -> float | None:
    if which.any() and not (which & is_known).any():
        return None
    return float(sum(float(value) for value in values[which & is_known]))


def test_a_disk_that_does_not_say_is_not_known() -> None:
    found = broker_rows(snapshot([Row(broker=7, leader=7), Row(broker=1, leader=7)]))
    by_broker = {row["broker"]: row for row in found.to_pylist()}
    assert by_broker[7]["disk_total_bytes"] == 10
    assert by_broker[7]["disk_usable_bytes"] is None
    assert by_broker[1]["disk_total_bytes"] is None


def test_a_cluster_of_nothing_has_no_rows() -> None:
    nothing = snapshot([])
    assert len(table_of(nothing)) == len(broker_rows(nothing)) == 0
    assert table_of(nothing).schema == SCHEMAS[SampleTable.REPLICAS]


def test_the_schema_says_unit_and_meaning_of_each_column() -> None:
    for table, columns in (
        (SampleTable.REPLICAS, REPLICA_SAMPLES),
        (SampleTable.BROKERS, BROKER_SAMPLES),
    ):
        schema = SCHEMAS[table]
        assert schema.names == [column.name for column in columns]
        for column in columns:
            about = schema.field(column.name).metadata
            assert about[b"meaning"].decode() == column.meaning
            assert about[b"unit"].decode() == column.unit


# JSON, for the topics


@given(drawn())
def test_a_row_as_json_is_the_row(one: Snapshot) -> None:
    for rows in (table_of(one), broker_rows(one)):
        objects = [json.loads(text) for text in json_rows(rows)]
        for found, row in zip(objects, rows.to_pylist(), strict=True):
            expected_row = {
                name: round(value.timestamp() * 1000) if name in ("at", "leader_at") else value
                for name, value in row.items()
                if value is not None
            }
            assert found == expected_row


def test_json_takes_any_name_and_no_number_that_is_none() -> None:
    topic = 'a"\\\n\x00日'
    table = pa.table({"at": [1], "topic": [topic], "rate": [math.inf], "ok": [1e300]})
    assert json.loads(json_rows(table)[0]) == {"at": 1, "topic": topic, "ok": 1e300}


def test_an_operation_of_a_topic_that_is_gone_is_on_no_row() -> None:
    one = snapshot([Row()])
    rows = replica_rows(one, Layout.of(one), np.array([0]), {TopicPartition("gone", 0): "op"})
    assert rows["operation_id"].to_pylist() == [None]
    assert rows["topic"].to_pylist() == [TOPICS[0]]


def test_a_rate_of_a_broker_that_did_not_answer_is_not_known() -> None:
    row = Row(broker=1, leader=0, in_isr=False, follower_throttled=True)
    one = snapshot([Row(), row], rates={0: ThrottledRate(5_000, 5_000)})
    assert table_of(one)["follower_throttle_bytes_per_s"].to_pylist() == [None, None]
