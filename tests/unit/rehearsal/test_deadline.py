"""The throttle that a deadline needs, by the model of copying, and what a twin makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.forecast.deadlines import (
    HIGHEST_BYTES_PER_S,
    STEPS,
    holds,
    late_end_s,
    lowest_rate,
    rate_step,
)
from kshunt.backend.domain.planning.rehearsal import Deadline
from kshunt.backend.domain.planning.requests import RehearsalRequest
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.impact import impact
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.planning.rehearsals import rehearse_all
from kshunt.backend.rehearsal.deadline import throttle_for
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.plan_forecast import PlannedMoves
from kshunt.backend.rehearsal.run import rehearse
from tests.support.clocks import StoppedClock
from tests.support.rehearsals import FAST, MB, named, situation, to_the_third
from tests.support.runs.examples import many

LATE_MOST = 1.25
"""1.16 was the most of 1,010 random plans."""
NOW_MS = 1_700_000_000_000
Targets = Mapping[TopicPartition, tuple[int, ...]]


def needed(picture: Picture, targets: Targets, within_s: float) -> Deadline:
    planned = PlannedMoves(picture, targets)
    found = impact(picture.situation, targets)
    return throttle_for(planned, found, NOW_MS + round(within_s * 1000), NOW_MS)


def end_at(picture: Picture, targets: Targets, throttle: int | None) -> ExpectedEnd:
    return PlannedMoves(picture, targets).forecast(throttle, NOW_MS).end


# Steps


def test_steps_are_rates_of_two_digits() -> None:
    assert [rate_step(n) for n in (0, 1, 89, 90, 91, 180)] == [
        1_000,
        1_100,
        9_900,
        10_000,
        11_000,
        100_000,
    ]
    steps = [rate_step(n) for n in range(STEPS)]
    assert sorted(set(steps)) == steps
    assert (steps[0], steps[-1]) == (RATE_MIN_BYTES_PER_S, HIGHEST_BYTES_PER_S)


@given(st.integers(0, STEPS), st.integers(0, 2 * 10**11))
def test_the_lowest_rate_is_found_whatever_is_enough(first: int, above: int) -> None:
    """Of rates that are enough from some step on."""

    def end_of(rate: int) -> ExpectedEnd:
        enough = first < STEPS and rate >= rate_step(first)
        return ExpectedEnd(NOW_MS, 1, 1.0, 1.0, 1.0 if enough else 3.0)

    found = lowest_rate(end_of, NOW_MS + 2_000, above)
    fit = [r for n in range(first, STEPS) if (r := rate_step(n)) > above]
    assert found == (fit[0] if fit else None)


# Plans


@pytest.mark.parametrize("within_s", [30, 90, 299])
def test_a_twin_keeps_the_deadline_at_the_throttle_that_is_found(within_s: float) -> None:
    picture = Picture(situation(), capacities=FAST)
    found = needed(picture, to_the_third(), within_s)
    assert found.throttle_bytes_per_s is not None
    # The late end of the range is some way behind the middle, but not endlessly far.
    assert 300 * MB / within_s <= found.throttle_bytes_per_s <= 3 * 300 * MB / within_s
    run = rehearse(picture, to_the_third(), found.throttle_bytes_per_s)
    assert run.finish_s is not None
    assert run.finish_s <= within_s
    assert found.certainty == 0.9
    assert found.needs == {
        1: (0.0, pytest.approx(300 * MB / within_s)),
        3: (pytest.approx(300 * MB / within_s), 0.0),
    }


@pytest.mark.parametrize("rate", [0.0, 2.0 * MB])
@pytest.mark.parametrize("throttle", [17 * MB, 40 * MB, 500 * MB, None])
def test_the_model_and_a_twin_agree_on_a_plan(rate: float, throttle: int | None) -> None:
    picture = Picture(situation(rate=rate), capacities=FAST)
    run = rehearse(picture, to_the_third(), throttle)
    end = end_at(picture, to_the_third(), throttle)
    assert run.finish_s is not None
    # A twin is looked at every second, and a replica takes one to join the ISR.
    assert end.p50_s == pytest.approx(run.finish_s, rel=0.05, abs=1.5)


def test_what_producers_use_up_never_ends_and_needs_a_higher_rate() -> None:
    picture = Picture(situation(rate=6.0 * MB), capacities=FAST)
    assert rehearse(picture, to_the_third(), 30 * MB).finish_s is None
    end = end_at(picture, to_the_third(), 30 * MB)
    assert (end.never, end.p90_s, late_end_s(end)) == (3, None, None)
    found = needed(picture, to_the_third(), 3_600)
    assert found.throttle_bytes_per_s is not None
    assert found.throttle_bytes_per_s > 36 * MB


def test_a_leader_that_the_controller_puts_back_meanwhile_counts() -> None:
    """Broker 1 leads both in the end: each gets half of its throttle from then on."""
    rows = [
        PartitionSituation(named(0), (1, 2), 1, (1, 2), 300 * MB, 0.0),
        PartitionSituation(named(1), (2, 1), 2, (1, 2), 300 * MB, 0.0),
    ]
    picture = Picture(Situation.of(rows, map(BrokerFacts, (1, 2, 3, 4))))
    targets = {named(0): (1, 3), named(1): (1, 4)}
    run, end = rehearse(picture, targets, MB // 2), end_at(picture, targets, MB // 2)
    assert run.finish_s is not None
    assert end.p50_s is not None
    # A throttle each would take 600 s. The controller looks for leaders within five minutes.
    assert 900 <= run.finish_s <= 1_200
    assert 900 <= end.p50_s <= 1_200


def test_what_is_not_possible_has_its_earliest_end() -> None:
    picture = Picture(situation(), capacities=FAST)
    request = RehearsalRequest(to_the_third(), deadline_ms=NOW_MS + 2_000)
    found = rehearse_all(picture, request, StoppedClock(NOW_MS))
    assert found.deadline is not None
    assert not found.deadline.possible
    (free,) = found.forecasts
    assert free.throttle_bytes_per_s is None
    assert free.end.p50_s == pytest.approx(4, abs=0.5)
    assert [run.throttle_bytes_per_s for run in found.rehearsals] == [None]


def test_without_a_throttle_the_end_is_unknown_where_no_capacity_is_known() -> None:
    end = end_at(Picture(situation()), to_the_third(), None)
    assert (end.p50_s, end.unknown) == (None, 3)


@pytest.mark.parametrize("deadline_ms", [NOW_MS, NOW_MS - 1, 0])
def test_a_deadline_that_is_over_is_refused(deadline_ms: int) -> None:
    request = RehearsalRequest(to_the_third(), deadline_ms=deadline_ms, quick=True)
    with pytest.raises(BadInput, match="already over"):
        rehearse_all(Picture(situation()), request, StoppedClock(NOW_MS))


def test_planning_that_takes_long_leaves_less_time() -> None:
    """The deadline is a moment: what planning takes is not added to it."""
    picture, clock = Picture(situation(), capacities=FAST), StoppedClock(NOW_MS)
    request = RehearsalRequest(to_the_third(), deadline_ms=NOW_MS + 100_000, quick=True)
    early = rehearse_all(picture, request, clock).deadline
    clock.ms += 50_000
    late = rehearse_all(picture, request, clock).deadline
    assert early is not None
    assert late is not None
    assert early.at_ms == late.at_ms == NOW_MS + 100_000
    assert early.throttle_bytes_per_s is not None
    assert late.throttle_bytes_per_s == pytest.approx(2 * early.throttle_bytes_per_s, rel=0.1)


def test_a_throttle_that_was_asked_for_is_rehearsed_once() -> None:
    picture = Picture(situation(), capacities=FAST)
    least = needed(picture, to_the_third(), 60).throttle_bytes_per_s
    request = RehearsalRequest(to_the_third(), (least,), NOW_MS + 60_000)
    found = rehearse_all(picture, request, StoppedClock(NOW_MS))
    assert len(found.rehearsals) == len(found.forecasts) == 1
    quick = rehearse_all(
        picture, RehearsalRequest(to_the_third(), (least,), quick=True), StoppedClock(NOW_MS)
    )
    assert quick.rehearsals == ()
    assert quick.forecasts[0].end == found.forecasts[0].end


def test_who_waits_is_told_how_far_the_rehearsals_are() -> None:
    picture = Picture(situation(), capacities=FAST)
    seen: list[tuple[int, float]] = []
    request = RehearsalRequest(to_the_third(), (10 * MB, None))
    rehearse_all(picture, request, StoppedClock(NOW_MS), lambda *step: seen.append(step))
    assert {done for done, _ in seen} == {0, 1}
    assert seen == sorted(seen)
    assert all(0 <= share < 1 for _, share in seen)
    assert any(share > 0 for _, share in seen)


def test_moves_that_cannot_be_started_are_refused() -> None:
    there = situation()
    with pytest.raises(BadInput, match="no such broker"):
        PlannedMoves(Picture(there), {named(0): (1, 9)})
    with pytest.raises(BadInput, match="does not exist"):
        PlannedMoves(Picture(there), {named(7): (1, 3)})
    with pytest.raises(BadInput, match="each of its brokers once"):
        PlannedMoves(Picture(there), {named(0): (3, 3)})
    with pytest.raises(BadInput, match="moves no partition"):
        PlannedMoves(Picture(there), {})
    rows = [PartitionSituation(named(0), (1, 2, 3), 1, (1, 2), 100 * MB, 0.0)]
    moving = [OngoingReassignment(named(0), (1, 2, 3), (3,), (2,))]
    busy = Situation.of(rows, there.brokers.values(), moving)
    with pytest.raises(BadInput, match="being reassigned already"):
        PlannedMoves(Picture(busy), {named(0): (1, 2)})


def test_a_broker_that_is_down_is_never_reached() -> None:
    there = situation()
    brokers = [*(there.brokers[id] for id in (1, 2)), BrokerFacts(3, "c", up=False)]
    rows = [PartitionSituation(named(0), (1, 2), 1, (1, 2), MB, 0.0)]
    picture = Picture(Situation.of(rows, brokers), capacities=FAST)
    assert end_at(picture, {named(0): (1, 3)}, 10 * MB).never == 1
    assert needed(picture, {named(0): (1, 3)}, 3_600).throttle_bytes_per_s is None


def test_a_new_order_alone_is_done_immediately() -> None:
    end = end_at(Picture(situation()), {named(0): (2, 1)}, 10 * MB)
    assert (end.copies, end.p90_s) == (0, 0.0)


# Laws


@st.composite
def plans(
    draw: st.DrawFn, mb_per_s: Sequence[float] = (0.0, 0.0, 0.1, 0.5)
) -> tuple[Picture, Targets]:
    """Partitions of some sizes and traffic on six brokers, of which some move."""
    rows, targets = [], {}
    for n in range(draw(st.integers(1, 8))):
        order = draw(st.permutations(range(1, 7)))
        current, target = tuple(order[:2]), tuple(order[draw(st.sampled_from([1, 2])) :][:2])
        written = draw(st.sampled_from(mb_per_s)) * MB
        size = draw(st.integers(1, 900)) * MB
        rows.append(PartitionSituation(named(n), current, current[0], current, size, written))
        targets[named(n)] = target
    return Picture(Situation.of(rows, map(BrokerFacts, range(1, 7)))), targets


@settings(max_examples=many(60))
@given(plans(), st.integers(0, STEPS - 2), st.integers(1, 200))
def test_a_lower_rate_never_ends_sooner(
    plan: tuple[Picture, Targets], place: int, further: int
) -> None:
    planned = PlannedMoves(*plan)
    lower, higher = rate_step(place), rate_step(min(place + further, STEPS - 1))
    slow, fast = (planned.forecast(rate, NOW_MS).end for rate in (lower, higher))
    slow_s, fast_s = late_end_s(slow), late_end_s(fast)
    if slow_s is not None:
        assert fast_s is not None
        assert fast_s <= slow_s * (1 + 1e-6) + 0.1


@settings(max_examples=many(40))
@given(plans(), st.integers(2, 100_000))
def test_the_given_rate_holds_and_the_next_lower_step_does_not(
    plan: tuple[Picture, Targets], within_s: int
) -> None:
    picture, targets = plan
    found = needed(picture, targets, within_s)
    planned = PlannedMoves(picture, targets)

    def enough(rate: int) -> bool:
        return holds(planned.forecast(rate, NOW_MS).end, NOW_MS + within_s * 1000)

    if found.throttle_bytes_per_s is None:
        assert not enough(HIGHEST_BYTES_PER_S)
        return
    steps = [rate_step(n) for n in range(STEPS)]
    place = steps.index(found.throttle_bytes_per_s)
    assert enough(steps[place])
    assert place == 0 or not enough(steps[place - 1])


@settings(max_examples=many(15))
@given(plans(), st.sampled_from([60, 300, 1_800]))
def test_twins_are_never_far_too_late(plan: tuple[Picture, Targets], within_s: int) -> None:
    """Nine in ten are promised to be in time; others are a little late."""
    picture, targets = plan
    found = needed(picture, targets, within_s)
    if found.throttle_bytes_per_s is not None:
        run = rehearse(picture, targets, found.throttle_bytes_per_s)
        assert run.finish_s is not None
        # An end is seen at the next look, and looks become rarer.
        before_s = max(at_s for at_s in run.timeline.at_s if at_s < run.finish_s)
        assert before_s <= LATE_MOST * within_s
