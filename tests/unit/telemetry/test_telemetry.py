"""Lag, rates and ETA from what brokers answered: laws of the columns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.assignment import Assignment, merge, partition_states
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment, TopicPartition
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas, ReplicaStatus
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas, Throttles
from kshunt.backend.telemetry.sampling import replica_lags
from kshunt.backend.telemetry.sampling.catch_up_rates import CatchUpRates
from tests.support.frames.stream_states import lists

NOTHING = Throttles({}, {})
Table = dict[tuple[str, int], tuple[list[int], list[int]]]
"""(topic, partition) to (replicas, ISR); the first replica leads."""


def assignment_of(table: Table) -> Assignment:
    topics = tuple(sorted({topic for topic, _ in table}))
    rows = [
        (topics.index(topic), partition, broker, place, replicas[0], broker in isr)
        for (topic, partition), (replicas, isr) in sorted(table.items())
        for place, broker in enumerate(replicas)
    ]
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return Assignment(
        topics,
        topic_index=np.array(columns[0], np.int32),
        partition=np.array(columns[1], np.int32),
        broker=np.array(columns[2], np.int32),
        position=np.array(columns[3], np.int16),
        leader=np.array(columns[4], np.int32),
        in_isr=np.array(columns[5], np.bool_),
        offline=np.zeros(len(rows), np.bool_),
    )


ONE = assignment_of({("a", 0): ([1, 2, 3], [1, 2])})


def told(
    assignment: Assignment, offsets: dict[int, int], at_ms: int, *, silent: tuple[int, ...] = ()
) -> tuple[replica_lags.RowIndex, Replicas]:
    """A snapshot's rows when these brokers have answered about a-0, and the `silent` ones not."""
    index = replica_lags.RowIndex(assignment)
    observed = replica_lags.nothing_observed(len(assignment))
    asked = PartitionColumns(("a",), np.zeros(1, np.int32), np.zeros(1, np.int32))
    for broker, offset in offsets.items():
        code = 0 if offset >= 0 else 6
        answer = OffsetColumns(np.array([offset]), np.array([code], np.int16))
        replica_lags.observe_offsets(index, observed, broker, asked, answer, at_ms)
    return index, replica_lags.replicas(index, observed, {}, NOTHING, frozenset(silent))


def test_lag_is_the_leaders_end_less_ones_own() -> None:
    _, rows = told(ONE, {1: 5_000, 2: 5_000, 3: 594}, 1_000)
    assert rows.lag_messages.tolist() == [0, 0, 4_406]
    assert [ReplicaStatus(s).name for s in rows.status] == ["IN_SYNC", "IN_SYNC", "BEHIND"]


@pytest.mark.parametrize(
    ("offsets", "silent"),
    [({1: 5_000}, ()), ({3: 10}, ()), ({1: 5_000, 3: -1}, ()), ({1: 5_000, 3: 10}, (1,))],
    ids=["follower untold", "leader untold", "replica not there yet", "leader silent"],
)
def test_what_is_not_known_is_not_zero(offsets: dict[int, int], silent: tuple[int, ...]) -> None:
    _, rows = told(ONE, offsets, 1_000, silent=silent)
    assert rows.lag_messages[2] == UNKNOWN
    assert rows.status[2] == ReplicaStatus.LAG_UNKNOWN


def test_a_follower_that_was_read_later_is_not_ahead() -> None:
    _, rows = told(ONE, {1: 100, 2: 103, 3: 50}, 1_000)
    assert rows.lag_messages.tolist() == [0, 0, 50]


def test_a_broker_that_is_not_the_clusters_has_no_row() -> None:
    index = replica_lags.RowIndex(ONE)
    assert index.rows_on(9, ("a",), np.zeros(1, np.int32), np.zeros(1, np.int32)).tolist() == [-1]
    assert index.rows_on(1, ("z",), np.zeros(1, np.int32), np.zeros(1, np.int32)).tolist() == [-1]


def test_sizes_and_directories_leave_future_replicas_out() -> None:
    index, observed = replica_lags.RowIndex(ONE), replica_lags.nothing_observed(len(ONE))
    columns = LogDirColumns(
        dirs=(LogDir(3, "/x"), LogDir(3, "/y")),
        topics=("z", "a"),
        topic_index=np.array([1, 1, 0], np.int32),
        partition=np.zeros(3, np.int32),
        dir_index=np.array([0, 1, 0], np.int16),
        size_bytes=np.array([70, 30, 5]),
        is_future=np.array([False, True, False]),
    )
    replica_lags.observe_log_dirs(index, observed, 3, columns, {"/x": 4, "/y": 5}, 7)
    assert observed.size_bytes.tolist() == [UNKNOWN, UNKNOWN, 70]
    assert observed.log_dir.tolist() == [UNKNOWN, UNKNOWN, 4]


def test_moves_and_throttles_mark_their_rows() -> None:
    partition = TopicPartition("a", 0)
    ongoing = {partition: OngoingReassignment(partition, (1, 2, 3), (3,), (2,))}
    throttles = Throttles(
        {}, {"a": ThrottledReplicas(ReplicaSet.parse("0:1,9:9"), ReplicaSet(everything=True))}
    )
    rows = replica_lags.replicas(
        replica_lags.RowIndex(ONE),
        replica_lags.nothing_observed(3),
        ongoing,
        throttles,
        frozenset(),
    )
    assert rows.adding.tolist() == [False, False, True]
    assert rows.removing.tolist() == [False, True, False]
    assert rows.leader_throttled.tolist() == [True, False, False]
    assert rows.follower_throttled.all()


@pytest.mark.parametrize("entry", ["0:9999999999", "9999999999:1", f"{2**24}:1", "0:7"])
def test_a_list_may_name_what_no_cluster_has(entry: str) -> None:
    two = assignment_of({("a", 0): ([1], [1]), ("b", 0): ([1], [1])})
    throttles = Throttles({}, {"a": lists("", entry), "b": lists("0:1", ""), "z": lists("0:1", "")})
    rows = replica_lags.replicas(
        replica_lags.RowIndex(two),
        replica_lags.nothing_observed(2),
        {},
        throttles,
        frozenset(),
    )
    assert rows.leader_throttled.tolist() == [False, True]
    assert not rows.follower_throttled.any()


def test_a_replica_in_a_directory_that_failed_is_offline_whatever_the_controller_says() -> None:
    index, observed = replica_lags.RowIndex(ONE), replica_lags.nothing_observed(len(ONE))
    observed.log_dir[:] = [0, 0, 1]
    failed = [(3, 1), (1, 1), (2, 7)]
    rows = replica_lags.replicas(index, observed, {}, NOTHING, frozenset(), failed)
    assert (rows.status == ReplicaStatus.OFFLINE).tolist() == [False, False, True]


def run_of(lags: list[int], step_ms: int = 1_000) -> list[Replicas]:
    """Snapshots of a follower whose lag takes these values, one a step."""
    rates, shown = CatchUpRates(), []
    for step, lag in enumerate(lags):
        index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 10_000 - lag}, 1_000 + step * step_ms)
        shown.append(rates.update(index, rows))
    return shown


def test_two_samples_give_a_rate() -> None:
    first, second = run_of([900, 800])
    assert math.isnan(first.catch_up_messages_per_s[2])
    assert second.catch_up_messages_per_s[2] == pytest.approx(100)


def test_a_burst_and_a_pause_are_one_rate() -> None:
    bursts = [1_000 - 100 * (step // 8) for step in range(25)]
    shown = run_of(bursts)
    assert shown[24].catch_up_messages_per_s[2] == pytest.approx(100 / 8, rel=0.05)


def test_a_row_that_was_not_read_again_keeps_its_rate() -> None:
    rates = CatchUpRates()
    for at_ms, lag in ((1_000, 900), (2_000, 800), (2_000, 800)):
        index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 10_000 - lag}, at_ms)
        shown = rates.update(index, rows)
    assert shown.catch_up_messages_per_s[2] == pytest.approx(100)


def test_a_replica_that_has_arrived_has_no_rate_and_an_eta_of_zero() -> None:
    rates = CatchUpRates()
    rates.update(*told(ONE, {1: 100, 2: 100, 3: 50}, 1_000))
    arrived = replace(ONE, in_isr=np.ones(3, np.bool_))
    shown = rates.update(*told(arrived, {1: 100, 2: 100, 3: 100}, 2_000))
    assert shown.eta_s[2] == 0.0
    assert math.isnan(shown.catch_up_messages_per_s[2])


def test_a_replica_that_is_offline_has_no_rate() -> None:
    rates = CatchUpRates()
    for at_ms, lag in ((1_000, 900), (2_000, 800)):
        index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 10_000 - lag}, at_ms)
        rates.update(index, rows)
    index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 9_200}, 2_000)
    rows.status[2] = ReplicaStatus.OFFLINE
    shown = rates.update(index, rows)
    for column in (shown.catch_up_messages_per_s, shown.fetched_bytes_per_s):
        assert math.isnan(column[2])


def test_a_lag_that_is_not_known_any_more_is_remembered() -> None:
    rates = CatchUpRates()
    index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 9_000}, 1_000)
    rows.lag_bytes[2] = 5_000
    rates.update(index, rows)
    index, rows = told(ONE, {1: 10_000, 2: 10_000}, 2_000)
    rows.lag_bytes[2] = UNKNOWN
    rates.update(index, rows)
    assert rates.last_lag_bytes[2] == 5_000
    index, rows = told(ONE, {1: 10_000, 2: 10_000, 3: 9_900}, 3_000)
    rows.lag_bytes[2] = 400
    rates.update(index, rows)
    assert rates.last_lag_bytes[2] == 400


replica_lists = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True)
tables = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 3)),
    replica_lists.map(lambda replicas: (replicas, replicas[:1])),
    max_size=10,
)


@given(tables, tables, st.frozensets(st.sampled_from("abcd")))
def test_merging_a_part_replaces_what_was_asked_for(
    whole: Table, part: Table, asked: frozenset[str]
) -> None:
    answered = {key: value for key, value in part.items() if key[0] in asked}
    merged = merge(assignment_of(whole), assignment_of(answered), asked)
    expected = {key: value for key, value in whole.items() if key[0] not in asked} | answered
    wanted = partition_states(assignment_of(expected))
    assert partition_states(merged) == wanted
    assert list(merged.topics) == sorted({topic for topic, _ in expected})


@given(tables, tables)
def test_facts_move_to_a_new_assignment_by_key(old: Table, new: Table) -> None:
    before, after = (
        replica_lags.RowIndex(assignment_of(old)),
        replica_lags.RowIndex(assignment_of(new)),
    )
    observed = replica_lags.nothing_observed(len(before.assignment))
    observed.log_end_offset[:] = np.arange(len(before.assignment))
    carried = replica_lags.carry(before, observed, after)
    known = {key: int(o) for key, o in zip(keys(before), observed.log_end_offset, strict=True)}
    expected = [known.get(key, UNKNOWN) for key in keys(after)]
    assert carried.log_end_offset.tolist() == expected


def keys(index: replica_lags.RowIndex) -> list[tuple[str, int, int]]:
    rows = index.assignment
    return [
        (rows.topics[topic], int(partition), int(broker))
        for topic, partition, broker in zip(
            rows.topic_index, rows.partition, rows.broker, strict=True
        )
    ]
