"""Copies of a snapshot, and of moves that wait: whom they burden, before they arrive and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import NO_BROKER, Broker, TopicPartition
from kshunt.backend.domain.forecast.copies import CHECK_S
from kshunt.backend.domain.forecast.expected_ends import HELD
from kshunt.backend.domain.forecast.snapshot_copies import (
    RowRates,
    RunningOperation,
    SnapshotCopies,
    snapshot_copies,
)
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    UNKNOWN,
    BrokerStatus,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    Move,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)

MB = 1_000_000
BROKERS = (1, 2, 3, 4, 5)
Row = dict[str, object]


def row(partition: int, broker: int, **more: object) -> Row:
    """A replica in the ISR of a partition that broker 1 leads, of 100 MB."""
    plain = dict.fromkeys(COLUMNS, 0) | {"leader": 1, "in_isr": True, "size_bytes": 100 * MB}
    return plain | {"partition": partition, "broker": broker} | more


def steady(partition: int = 0, **more: object) -> list[Row]:
    """A partition on brokers 1, 2 and 3."""
    return [row(partition, one, position=place, **more) for place, one in enumerate((1, 2, 3))]


def added(partition: int, broker: int, **more: object) -> Row:
    """A replica that lacks 40 MB."""
    return row(partition, broker, in_isr=False, adding=True, lag_bytes=40 * MB, **more)


def snapshot(rows: Sequence[Row], throttles: Throttles | None = None) -> Snapshot:
    columns = {name: np.array([one[name] for one in rows], DTYPES[name]) for name in COLUMNS}
    return Snapshot(
        version=1,
        taken_ms=1_000,
        cluster_id="c",
        controller=1,
        topics=("t",),
        replicas=Replicas(**columns),
        brokers={one: BrokerStatus(Broker(one, "h", 9092, ""), 1, stale=False) for one in BROKERS},
        throttles=throttles or Throttles({}, {}),
    )


def move(target: tuple[int, ...], partition: int = 0) -> Move:
    return Move(TopicPartition("t", partition), (1, 2, 3), target)


def operation(*waiting: Move, held: bool = False, caps: MoveCaps | None = None) -> RunningOperation:
    partitions = [one.partition for one in waiting]
    return RunningOperation("op", partitions, waiting, caps, held)


def of_waiting(
    target: tuple[int, ...], rows: Sequence[Row] = (), throttles: Throttles | None = None
) -> SnapshotCopies:
    """One move from brokers 1, 2, 3 that has not begun."""
    return snapshot_copies(snapshot(rows or steady(), throttles), [operation(move(target))])


# What a leader's throttle loses with a copy's end, in followers; below 0 it gains.


@pytest.mark.parametrize(
    ("target", "after"),
    [
        # One follower comes and another goes.
        ((1, 2, 4), [0.0]),
        # One comes, none goes.
        ((1, 2, 3, 4), [1.0]),
        # Both old followers and the new one follow another leader.
        ((4, 2, 3), [-2.0]),
        # Each of two copies bears half of it.
        ((4, 5, 3), [-1.0, -1.0]),
        # Each of two copies bears half of the one that goes.
        ((1, 2, 4, 5), [0.5, 0.5]),
    ],
)
def test_followers_leave_their_leader_with_the_end_of_a_move_that_waits(
    target: tuple[int, ...], after: list[float]
) -> None:
    assert of_waiting(target).copies.source_after.tolist() == after


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ([*steady(), added(0, 4, position=3)], [1.0]),
        ([*steady()[:2], row(0, 3, removing=True), added(0, 4)], [0.0]),
        ([row(0, 1, removing=True), *steady()[1:], added(0, 4)], [-2.0]),
        # Nobody moves it: it fell behind, and comes back as one follower.
        ([*steady()[:2], row(0, 3, in_isr=False)], [1.0]),
    ],
)
def test_followers_leave_their_leader_with_the_end_of_a_move_that_has_begun(
    rows: list[Row], after: list[float]
) -> None:
    assert snapshot_copies(snapshot(rows)).copies.source_after.tolist() == after


def test_a_replica_that_takes_over_is_a_follower_no_more() -> None:
    assert of_waiting((4, 2, 3)).copies.target_after.tolist() == [0.0]
    assert of_waiting((1, 2, 4)).copies.target_after.tolist() == [1.0]
    begun = [row(0, 1, removing=True, position=1), row(0, 2, position=2), added(0, 4, position=0)]
    assert snapshot_copies(snapshot(begun)).copies.target_after.tolist() == [0.0]
    begun[2] = added(0, 4, position=3)
    assert snapshot_copies(snapshot(begun)).copies.target_after.tolist() == [1.0]


# Leaders that the controller puts back meanwhile


def moved_to_2(**more: object) -> list[Row]:
    """Broker 1 leads and leaves; broker 2 is in the ISR and preferred; broker 4 is new."""
    return [
        row(0, 2, position=0, leader_throttled=True),
        added(0, 4, position=1) | more,
        row(0, 1, position=2, leader_throttled=True, removing=True),
    ]


def test_a_preferred_leader_in_the_isr_leads_soon() -> None:
    rows = snapshot(moved_to_2())
    fresh = replace(RowRates.of(rows.replicas), age_s=np.zeros(3))
    found = snapshot_copies(rows, watched=fresh).copies.next_leaders
    assert found is not None
    assert found.first_s == CHECK_S / 2
    assert (found.source.tolist(), found.at_source.tolist()) == ([2], [True])
    # Broker 1 follows then, and leaves in exchange for broker 4.
    assert (found.source_after.tolist(), found.in_sync.tolist()) == ([0.0], [1.0])


@pytest.mark.parametrize(("age_s", "first_s"), [(100.0, 100.0), (299.0, 0.5)])
def test_the_longer_nobody_put_it_back_the_sooner_it_happens(age_s: float, first_s: float) -> None:
    rows = snapshot(moved_to_2())
    watched = replace(RowRates.of(rows.replicas), age_s=np.full(3, age_s))
    found = snapshot_copies(rows, watched=watched).copies.next_leaders
    assert found is not None
    assert found.first_s == first_s


@pytest.mark.parametrize("age_s", [CHECK_S, math.inf, math.nan])
def test_a_controller_that_had_the_time_puts_none_back(age_s: float) -> None:
    rows = snapshot(moved_to_2())
    watched = replace(RowRates.of(rows.replicas), age_s=np.full(3, age_s))
    assert snapshot_copies(rows, watched=watched).copies.next_leaders is None


@pytest.mark.parametrize(
    "rows",
    [
        # The preferred one leads.
        [*steady(), added(0, 4, position=3)],
        # It is not in the ISR.
        [row(0, 1, position=1, removing=True), added(0, 4, position=0)],
    ],
)
def test_other_leaders_stay(rows: list[Row]) -> None:
    watched = replace(RowRates.of(snapshot(rows).replicas), age_s=np.zeros(len(rows)))
    assert snapshot_copies(snapshot(rows), watched=watched).copies.next_leaders is None


def test_a_move_that_waits_has_its_next_leader_too() -> None:
    listed = ThrottledReplicas(leaders=ReplicaSet(frozenset({(0, 2)})))
    found = of_waiting((2, 4, 5), throttles=Throttles({}, {"t": listed})).copies.next_leaders
    assert found is not None
    assert found.source.tolist() == [2, 2]
    assert found.at_source.tolist() == [True, True]
    assert found.source_after.tolist() == [0.0, 0.0]
    assert found.in_sync.tolist() == [1.0, 1.0]
    assert of_waiting((1, 4, 5)).copies.next_leaders is None
    assert of_waiting((4, 2, 3)).copies.next_leaders is None


# What is known of a move that waits


def test_a_move_that_waits_lacks_all_that_its_leader_has() -> None:
    found = of_waiting((1, 4, 5)).copies
    assert found.source.tolist() == [1, 1]
    assert found.target.tolist() == [4, 5]
    assert found.remaining_bytes.tolist() == [100 * MB, 100 * MB]
    assert found.waiting.all()


def test_a_size_that_is_not_known_is_not_zero() -> None:
    found = of_waiting((1, 2, 4), steady(size_bytes=UNKNOWN)).copies
    assert math.isnan(found.remaining_bytes[0])
    without = of_waiting((1, 2, 4), steady(leader=NO_BROKER)).copies
    assert math.isnan(without.remaining_bytes[0])
    begun = snapshot([*steady(), added(0, 4) | {"lag_bytes": UNKNOWN}])
    assert math.isnan(snapshot_copies(begun).copies.remaining_bytes[0])


def test_why_a_move_that_waits_does_not_arrive() -> None:
    whole = snapshot(steady())
    gone = {**whole.brokers, 4: replace(whole.brokers[4], broker=Broker(4, "", 0, ""))}
    absent = {id: one for id, one in whole.brokers.items() if id != 4}
    waits, held = operation(move((1, 2, 4))), operation(move((1, 2, 4)), held=True)
    assert snapshot_copies(whole, [waits]).copies.why == ("",)
    assert snapshot_copies(whole, [held]).copies.why == (HELD,)
    for brokers in (gone, absent):
        down = snapshot_copies(replace(whole, brokers=brokers), [waits])
        assert down.copies.why == (Cause.BROKER_DOWN.key,)
    leaderless = snapshot_copies(snapshot(steady(leader=NO_BROKER)), [waits])
    assert leaderless.copies.why == (Cause.NO_LEADER.key,)


def test_the_list_of_a_topic_says_whether_a_follower_throttle_will_hold_it() -> None:
    listed = ThrottledReplicas(followers=ReplicaSet(frozenset({(0, 4)})))
    throttles = Throttles({}, {"t": listed})
    assert of_waiting((1, 4, 5), throttles=throttles).copies.at_target.tolist() == [True, False]
    assert of_waiting((1, 2, 4)).copies.at_target.tolist() == [False]


@pytest.mark.parametrize(("smallest_first", "order"), [(True, [1, 0, 2]), (False, [0, 1, 2])])
def test_moves_wait_in_the_order_of_their_bytes_and_those_of_unknown_size_last(
    smallest_first: bool, order: list[int]
) -> None:
    sizes = (50 * MB, 30 * MB, UNKNOWN)
    rows = [one for n, size in enumerate(sizes) for one in steady(n, size_bytes=size)]
    waiting = [move((1, 2, 4), number) for number in range(3)]
    caps = MoveCaps(1, 1, smallest_first=smallest_first)
    found = snapshot_copies(snapshot(rows), [operation(*waiting, caps=caps)])
    assert found.copies.queue is not None
    (queue,) = found.copies.queue.waiting
    assert queue.moves.tolist() == order


# Whose they are


def test_copies_belong_to_the_operation_that_moves_them_and_to_everything() -> None:
    rows = [
        *(*steady(0), added(0, 4)),
        *steady(1),
        *(*steady(2)[:2], row(2, 3, in_isr=False)),
        *(*steady(3), added(3, 5)),
    ]
    ours = replace(
        operation(move((1, 2, 4), 1)), partitions=[move((), n).partition for n in (0, 1)]
    )
    found = snapshot_copies(
        snapshot(rows), [replace(ours, id="other", partitions=(), waiting=()), ours]
    )
    assert found.copies.target.tolist() == [4, 3, 5, 4]
    assert found.operation.tolist() == [1, -1, -1, 1]
    # Nobody waits for the replica that only fell behind.
    assert found.moving.tolist() == [True, False, True, True]
    members = found.members([replace(ours, id="other"), ours])
    assert {id: rows.tolist() for id, rows in members.items()} == {
        "op": [0, 3], EVERYTHING: [0, 2, 3],
    }  # fmt: skip


# Throttles in force


def test_followers_in_sync_take_of_a_throttle_on_whose_list_they_are() -> None:
    rates = {
        broker: BrokerThrottle(broker, ThrottledRate(leader, follower))
        for broker, leader, follower in ((1, 10 * MB, None), (2, None, 20 * MB))
    }
    taking = {"fetched_bytes_per_s": 3 * MB}
    rows = [
        row(0, 1, leader_throttled=True),
        row(0, 2, follower_throttled=True, **taking),
        row(0, 3, **taking),
        added(0, 4),
    ]
    found = snapshot_copies(snapshot(rows, Throttles(rates, {}))).rates
    assert found.brokers.tolist() == [1, 2]
    assert found.leader_bytes_per_s.tolist() == [10 * MB, math.inf]
    assert found.follower_bytes_per_s.tolist() == [math.inf, 20 * MB]
    # The leader is listed, and sends to both that are in sync.
    assert found.leader_in_sync_bytes_per_s.tolist() == [6 * MB, 0]
    assert found.follower_in_sync_bytes_per_s.tolist() == [0, 3 * MB]


def test_what_a_copy_lacked_counts_while_its_leader_does_not_answer() -> None:
    silent = snapshot([*steady(), added(0, 4) | {"lag_bytes": UNKNOWN}])
    watched = replace(RowRates.of(silent.replicas), lacked_bytes=np.full(4, 30.0 * MB))
    assert np.isnan(snapshot_copies(silent).copies.remaining_bytes).tolist() == [True]
    assert snapshot_copies(silent, watched=watched).copies.remaining_bytes.tolist() == [30 * MB]
    answers = snapshot([*steady(), added(0, 4)])
    assert snapshot_copies(answers, watched=watched).copies.remaining_bytes.tolist() == [40 * MB]
