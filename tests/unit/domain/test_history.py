"""The history of moves: coarser with age, the same wherever it is thinned, with gaps seen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.replicas.history import (
    POINTS_MOST,
    TIERS,
    SeenRates,
    gaps,
    in_buckets,
    thinned,
)
from kshunt.backend.domain.replicas.snapshot import HistoryPoint
from kshunt.backend.domain.throttles.configs import ThrottledRate
from tests.support.tui.cluster import incident

STEPS_MS = (200, 1_000, 7_000, 40_000, 400_000, 4_000_000)


def points_of(steps: list[tuple[int, bool]]) -> list[HistoryPoint]:
    at_ms, found = 1_760_000_000_000, []
    for number, (step_ms, changed) in enumerate(steps):
        at_ms += step_ms
        found.append(HistoryPoint(at_ms, number, 1, rates_changed=changed))
    return found


STEPS = st.lists(st.tuples(st.sampled_from(STEPS_MS), st.booleans()), max_size=80)


@given(STEPS, st.integers(0, 80))
def test_who_thins_as_it_goes_has_what_who_thins_once_has(
    steps: list[tuple[int, bool]], place: int
) -> None:
    points = points_of(steps)
    whole = thinned(points)
    assert thinned(whole) == whole
    assert thinned((*thinned(points[:place]), *points[place:])) == whole
    one_by_one: tuple[HistoryPoint, ...] = ()
    for point in points:
        one_by_one = thinned((*one_by_one, point))
    assert one_by_one == whole


@given(STEPS)
def test_what_is_new_stays_and_no_change_of_rates_is_lost(steps: list[tuple[int, bool]]) -> None:
    points = points_of(steps)
    kept = thinned(points)
    newest_ms = points[-1].at_ms if points else 0
    fine = [point for point in points if newest_ms - point.at_ms < 60_000]
    assert list(kept[len(kept) - len(fine) :]) == fine
    if points and newest_ms - points[0].at_ms < TIERS[0][0]:
        assert any(p.rates_changed for p in kept) == any(p.rates_changed for p in points)


def test_days_fit_in_bounds() -> None:
    week = [HistoryPoint(at * 1_000, 1, 1) for at in range(0, 7 * 86_400, 5)]
    kept = thinned(week)
    assert len(kept) < POINTS_MOST / 2
    assert kept[0].at_ms < 1_800_000
    assert gaps([point.at_ms for point in kept]) == []
    longer = [replace(point, at_ms=point.at_ms + 20 * 86_400_000) for point in week[-10:]]
    assert thinned((*kept, *longer)) == tuple(longer)
    assert list(in_buckets([])) == []


def test_a_gap_is_longer_than_points_of_its_age_are_apart() -> None:
    assert gaps([]) == gaps([5]) == gaps([0, 14_999]) == []
    assert gaps([0, 15_000]) == [1]
    assert gaps([0, 1_000, 61_000, 62_000]) == [2]
    hours = [h * 3_600_000 for h in range(5)]
    assert gaps([at for hour in hours for at in (hour, hour + 1_800_000)]) != []
    old = [*range(0, 3_600_000, 1_800_000), 30 * 3_600_000]
    assert gaps(old) == [2]


def test_rates_change_where_a_broker_says_another_one() -> None:
    cluster, seen = incident(), SeenRates()
    assert not seen.changed(cluster.snapshot().throttles)
    cluster.down = {2: "Request timed out."}
    assert not seen.changed(cluster.snapshot().throttles), "nobody has said anything else"
    cluster.down = {}
    assert not seen.changed(cluster.snapshot().throttles)
    cluster.rates[2] = ThrottledRate(1, 2)
    assert seen.changed(cluster.snapshot().throttles)
    assert not seen.changed(cluster.snapshot().throttles)
