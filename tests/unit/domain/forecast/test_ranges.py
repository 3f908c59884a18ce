"""What a forecast is put down to: how far it is on its way, and how much is written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kshunt.backend.domain.forecast.ranges import (
    COPY,
    HOLDS,
    QUANTILES,
    STAGES,
    WRITES,
    held_by,
    ranges,
    stage_places,
    writes_places,
    written_share,
)


@pytest.mark.parametrize(
    ("share", "place"),
    [
        (0.0, "none"),
        (0.02, "none"),
        (0.021, "some"),
        (1.0, "some"),
        (1.1, "much"),
        (math.inf, "much"),
    ],
)
def test_writes_are_told_apart_by_what_copies_lack(share: float, place: str) -> None:
    assert WRITES[int(writes_places(np.array([share]))[0])] == place


def test_writes_that_are_not_known_are_not_taken_for_none() -> None:
    nothing_known = written_share(10.0, np.array([math.nan]), np.array([100.0]))
    assert [WRITES[one] for one in writes_places(np.array([nothing_known]))] == ["some"]


def test_what_is_written_until_the_end_is_over_what_all_copies_lack_now() -> None:
    written, lacks = np.array([1.0, math.nan, 2.0]), np.array([100.0, 100.0, math.nan])
    assert written_share(10.0, written, lacks) == pytest.approx(0.15)
    assert math.isnan(written_share(math.inf, written, lacks))
    assert written_share(10.0, written, np.zeros(3)) == pytest.approx(30.0)


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
