"""What a forecast is put down to: how far it is on its way, and how much it has moved lately."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kshunt.backend.domain.forecast.ranges import (
    COPY,
    FIRST_S,
    HOLDS,
    OPERATION,
    QUANTILES,
    STAGES,
    WANDER_S,
    WANDERS,
    held_by,
    ranges,
    stage_places,
    unwatched,
    wander_places,
)

LONG_S = WANDER_S + 1


def wander(share: float, age_s: float) -> str:
    return WANDERS[int(wander_places(np.array([share]), np.array([age_s]))[0])]


@pytest.mark.parametrize(
    ("share", "age_s", "place"),
    [
        (0.0, LONG_S, "calm"),
        (0.1, LONG_S, "uneasy"),
        (0.2, LONG_S, "restless"),
        (math.nan, LONG_S, "restless"),
        # It has had no time to move: that it did not says nothing, and that it did says a lot.
        (0.0, WANDER_S - 1, "uneasy"),
        (0.2, WANDER_S - 1, "restless"),
        # Copies begin one by one, or with a burst.
        (0.0, FIRST_S - 1, "restless"),
        (0.0, FIRST_S, "uneasy"),
        (0.0, math.nan, "restless"),
        (0.0, WANDER_S, "calm"),
    ],
)
def test_an_end_is_calm_only_where_it_was_watched(share: float, age_s: float, place: str) -> None:
    assert wander(share, age_s) == place


def test_where_nobody_looks_how_ends_move_the_age_decides() -> None:
    ages_s = np.array([WANDER_S - 1, WANDER_S, math.nan])
    assert [WANDERS[one] for one in unwatched(COPY, ages_s)] == ["restless", "uneasy", "restless"]
    assert {WANDERS[one] for one in unwatched(OPERATION, ages_s)} == {"restless"}


def test_a_move_that_waits_is_held_by_its_turn_whatever_the_throttle() -> None:
    found = held_by(np.array([True, True, False, False]), np.array([True, False, True, False]))
    assert [HOLDS[one] for one in found] == ["turn", "throttle", "turn", "other"]


def test_a_forecast_is_half_way_when_it_was_watched_as_long_as_is_left() -> None:
    seconds, age_s = np.array([30.0, 90.0, math.inf]), np.array([30.0, -5.0, 10.0])
    nothing = np.zeros(3, np.int64)
    found = ranges(COPY, seconds, age_s, nothing, nothing, np.zeros(QUANTILES))
    assert found.stage[:2].tolist() == [0.5, 0.0]
    assert np.isnan(found.stage[2])
    assert found.ends_s[:2].tolist() == [[30.0] * 3, [90.0] * 3]
    assert np.isnan(found.ends_s[2]).all()


def test_each_fifth_is_a_stage_and_the_end_is_in_the_last() -> None:
    shares = np.array([0.0, 0.19, 0.2, 0.5, 0.99, 1.0, math.nan])
    last = STAGES - 1
    assert stage_places(shares).tolist() == [0, 0, 1, 2, last, last, 0]


def test_in_the_first_seconds_a_range_is_that_of_all_stages_alike() -> None:
    quantiles = np.zeros(QUANTILES)
    quantiles[OPERATION, :, :, :, 2] = np.log([1.0, 2.0, 4.0, 8.0, 16.0])[:, None, None]
    seconds, age_s = np.array([100.0, 100.0]), np.array([FIRST_S - 1, FIRST_S])
    nothing = np.zeros(2, np.int64)
    found = ranges(OPERATION, seconds, age_s, nothing, nothing, quantiles)
    assert found.ends_s[:, 2] == pytest.approx([400.0, 100.0])
