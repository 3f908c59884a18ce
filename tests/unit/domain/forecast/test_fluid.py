"""Copies that share what limits them, compared with plain ways to compute the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.forecast.fair_shares import fair_shares
from kshunt.backend.domain.forecast.fluid import Flows, FluidRun, LeaderChanges, fluid_run
from kshunt.backend.domain.forecast.turns import MoveQueue, WaitingMoves
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from tests.support.runs.examples import many

Network = tuple[list[list[int]], list[float]]


def filled(passes: list[list[int]], capacity: list[float]) -> list[float]:
    """Max-min fair shares: all grow together, and stop where something is full."""
    rates, growing = [0.0] * len(passes), set(range(len(passes)))
    while growing:
        used = [sum(rates[i] for i, p in enumerate(passes) if r in p) for r in range(len(capacity))]
        more = min(
            (capacity[r] - used[r]) / sum(r in passes[i] for i in growing)
            for i in growing
            for r in passes[i]
        )
        for i in growing:
            rates[i] += more
        full = {
            r
            for r in range(len(capacity))
            if used[r] + 1e-9 >= capacity[r] - more * sum(r in passes[i] for i in growing)
        }
        growing = {i for i in growing if not full & set(passes[i])}
    return rates


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Some flows, each through one or two of some resources."""
    count = draw(st.integers(1, 5))
    place = st.integers(0, count - 1)
    passes = draw(
        st.lists(st.lists(place, min_size=1, max_size=2, unique=True), min_size=1, max_size=8)
    )
    capacity = [float(draw(st.integers(1, 50))) for _ in range(count)]
    return passes, capacity


def as_arrays(passes: list[list[int]], capacity: list[float]) -> tuple[Any, Any]:
    nothing = len(capacity)
    wide = np.array([[*p, *[nothing] * (2 - len(p))] for p in passes])
    return wide, np.array([*capacity, math.inf])


def flows(remaining: Any, passes: Any, written: float = 0.0, after: float = 0.0) -> Flows:
    count = len(remaining)
    return Flows(
        np.array(remaining, np.float64),
        np.full(count, written),
        passes,
        np.full(passes.shape, after),
    )


@given(networks())
def test_shares_are_max_min_fair(network: Network) -> None:
    passes, capacity = as_arrays(*network)
    rates, tight = fair_shares(passes, np.ones(len(passes), np.int64), capacity)
    assert rates == pytest.approx(filled(*network))
    for own, resource in zip(network[0], tight.tolist(), strict=True):
        assert resource in own


@settings(max_examples=many(30))
@given(networks(), st.data())
def test_it_goes_as_in_small_steps(network: Network, data: st.DataObject) -> None:
    passes, capacity = as_arrays(*network)
    sizes = st.lists(st.integers(1, 100), min_size=len(passes), max_size=len(passes))
    remaining = np.array(data.draw(sizes), np.float64)
    found = fluid_run(flows(remaining, passes), capacity)
    left, ends, now_s, step_s = remaining.copy(), np.zeros(len(passes)), 0.0, 0.02
    while (left > 0).any() and now_s < 30:
        active = np.flatnonzero(left > 0)
        rates, _ = fair_shares(passes[active], np.ones(len(active), np.int64), capacity)
        left[active] -= rates * step_s
        now_s += step_s
        ends[active[left[active] <= 0]] = now_s
    over = left <= 0
    assert found.seconds[over] == pytest.approx(ends[over], abs=0.2, rel=0.02)


def test_what_is_written_meanwhile_has_to_be_copied_too() -> None:
    passes, capacity = as_arrays([[0]], [10.0])
    assert fluid_run(flows([100.0], passes, written=5.0), capacity).seconds.tolist() == [20.0]
    too_much = fluid_run(flows([100.0], passes, written=10.0), capacity)
    assert too_much.seconds.tolist() == [math.inf]


def test_what_has_arrived_goes_on_to_use_what_it_passed_or_makes_room() -> None:
    passes, capacity = as_arrays([[0], [0]], [10.0])
    for after, end in ((0.0, 30.0), (5.0, 40.0), (-10.0, 25.0)):
        found = fluid_run(flows([100.0, 200.0], passes, after=after), capacity)
        assert found.seconds.tolist() == [20.0, end]


def test_a_way_that_is_overdrawn_gives_nothing_and_nothing_to_others() -> None:
    """The first one, once there, takes 15 B/s of a way with 10; the third shares another way."""
    passes, capacity = as_arrays([[0], [0, 1], [1]], [10.0, 10.0])
    found = fluid_run(flows([50.0, 100.0, 100.0], passes, after=15.0), capacity)
    assert found.seconds.tolist() == [10.0, math.inf, 15.0]


def test_many_copies_on_one_way_end_when_their_bytes_have_passed() -> None:
    """Steps are coarse where there are many; what they leave unused is given to the others."""
    dice = np.random.default_rng(5)
    remaining = dice.lognormal(5, 1, 2_000)
    passes, capacity = as_arrays([[0]] * len(remaining), [1_000.0])
    found = fluid_run(flows(remaining, passes), capacity)
    assert found.seconds.max() == pytest.approx(remaining.sum() / 1_000, rel=0.01)
    assert len(found.moments) < 80


# --- leaders that change


def changed(
    passes: Any, then: list[list[int]], first_s: float, in_sync: float = 0.0
) -> LeaderChanges:
    """All copies pass these resources from then on, and at each check ten seconds later."""
    count, wide = passes.shape
    wider = np.array([[*p, *[passes.max()] * (wide - len(p))] for p in then])
    nothing = np.zeros((count, wide))
    every = np.ones(count, np.bool_)
    return LeaderChanges(first_s, 10.0, every, wider, nothing, np.full(count, in_sync))


def test_copies_go_on_by_the_way_from_their_next_leader() -> None:
    """Two throttles of 10 B/s for a copy each; after 5 s both pass the second one."""
    passes, capacity = as_arrays([[0, 2], [1, 2]], [10.0, 10.0, 1_000.0])
    then = changed(passes, [[1, 2], [1, 2]], 5.0)
    found = fluid_run(flows([100.0, 100.0], passes), capacity, None, then)
    assert found.seconds.tolist() == [15.0, 15.0]
    assert [moment.at_s for moment in found.moments] == [0.0, 5.0]


def test_what_followers_in_the_isr_take_goes_along() -> None:
    """They take 4 B/s of what the next leader may send, and leave that to the other copy."""
    passes, capacity = as_arrays([[0, 2], [0, 2]], [8.0, 10.0, 1_000.0])
    then = changed(passes, [[1, 2], [0, 2]], 5.0)
    then.in_sync_bytes_per_s[:] = [4.0, 0.0]
    then.which[:] = [True, False]
    found = fluid_run(flows([80.0, 80.0], passes), capacity, None, then)
    # Both have 60 B left after 5 s: one continues at 10 - 4, the other at 8 + 4.
    assert found.seconds.tolist() == [15.0, 10.0]


def test_a_copy_that_would_never_arrive_does_from_its_next_leader() -> None:
    passes, capacity = as_arrays([[0, 2]], [5.0, 25.0, 1_000.0])
    then = changed(passes, [[1, 2]], 4.0)
    found = fluid_run(flows([100.0], passes, written=5.0), capacity, None, then)
    assert found.seconds.tolist() == [9.0]


@pytest.mark.parametrize("count", [2, 30])
def test_moves_that_wait_get_their_next_leaders_at_a_later_check(count: int) -> None:
    """One at a time: each takes 6 s from its leader, or faster once a check has come."""
    passes, capacity = as_arrays([[0, 2]] * count, [10.0, 1_000.0, 10_000.0])
    waiting = WaitingMoves(np.arange(1, count), MoveCaps(1, 1))
    brokers = [frozenset({1, n + 2}) for n in range(count)]
    queue = MoveQueue(np.arange(count), np.zeros(count, np.int64), brokers, (waiting,))
    then = changed(passes, [[1, 2]] * count, 9.0)
    found = fluid_run(flows([60.0] * count, passes), capacity, queue, then)
    # The first ends before the check; the second has 30 B left at it.
    assert found.seconds[:2] == pytest.approx([6.0, 9.03])
    assert np.isfinite(found.seconds).all()
    assert (np.diff(found.seconds) <= 6.0 + 1e-9).all()
    if count > 2:
        # After this number of checks nobody waits for one any more.
        assert np.diff(found.seconds)[-1] == pytest.approx(0.06)


# --- turns


def queued(
    remaining: list[float],
    brokers: list[set[int]],
    caps: MoveCaps,
    order: list[int],
    capacity: float = 10.0,
) -> FluidRun:
    """Each copy a move of its own, of 10 B/s at its broker; those in `order` wait."""
    passes, room = as_arrays([[min(one)] for one in brokers], [capacity] * 4)
    queue = MoveQueue(
        np.arange(len(remaining)),
        np.zeros(len(remaining), np.int64),
        [frozenset(one) for one in brokers],
        (WaitingMoves(np.array(order, np.int64), caps),),
    )
    return fluid_run(flows(remaining, passes), room, queue)


def test_a_move_begins_when_its_brokers_have_room() -> None:
    found = queued([100.0, 50.0, 30.0], [{0}, {0}, {1}], MoveCaps(1, 10), [1, 2])
    assert found.begins_s.tolist() == [0.0, 10.0, 0.0]
    assert found.seconds.tolist() == [10.0, 15.0, 3.0]
    assert found.rate_bytes_per_s.tolist() == [10.0, 0.0, 10.0]


def test_what_is_written_while_a_move_waits_has_to_be_copied_too() -> None:
    passes, capacity = as_arrays([[0], [0]], [10.0])
    queue = MoveQueue(
        np.arange(2),
        np.zeros(2, np.int64),
        [frozenset({0}), frozenset({0})],
        (WaitingMoves(np.array([1]), MoveCaps(1, 9)),),
    )
    found = fluid_run(flows([90.0, 80.0], passes, written=1.0), capacity, queue)
    # The second has become 10 B larger until its turn comes, and comes nearer by 9 B a second.
    assert found.begins_s.tolist() == [0.0, 10.0]
    assert found.seconds.tolist() == [10.0, 20.0]


def test_the_cluster_has_a_cap_as_well() -> None:
    found = queued([100.0, 50.0, 30.0], [{0}, {1}, {2}], MoveCaps(5, 2), [1, 2])
    assert found.begins_s.tolist() == [0.0, 0.0, 5.0]


def test_a_move_of_two_copies_holds_its_places_until_both_have_arrived() -> None:
    passes, capacity = as_arrays([[0], [1], [2]], [10.0, 10.0, 10.0])
    queue = MoveQueue(
        np.array([0, 0, 1]),
        np.zeros(2, np.int64),
        [frozenset({0, 1}), frozenset({1, 2})],
        (WaitingMoves(np.array([1]), MoveCaps(1, 9)),),
    )
    found = fluid_run(flows([50.0, 100.0, 10.0], passes), capacity, queue)
    assert found.begins_s.tolist() == [0.0, 0.0, 10.0]
    lost = fluid_run(flows([50.0, 10.0], passes[[0, 2]]), capacity, queue.of(np.array([0, 2])))
    assert lost.begins_s.tolist() == [0.0, math.inf]


@settings(max_examples=many(25))
@given(st.integers(0, 2**32 - 1))
def test_under_caps_no_way_is_left_unused_while_something_waits_for_it(seed: int) -> None:
    """Steps are coarse, and the end is still that of steps from one end to the next."""
    dice = np.random.default_rng(seed)
    count = 300
    brokers = [{int(one)} for one in dice.integers(0, 3, count)]
    remaining = dice.lognormal(3, 1, count).tolist()
    found = queued(remaining, brokers, MoveCaps(4, 100), list(range(8, count)))
    for broker in range(3):
        mine = [n for n, one in enumerate(brokers) if one == {broker}]
        needs_s = sum(remaining[n] for n in mine) / 10.0
        assert found.seconds[mine].max() == pytest.approx(needs_s, rel=0.1)
