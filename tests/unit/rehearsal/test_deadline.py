"""The throttle that a deadline needs."""

from __future__ import annotations

import math

import pytest

from kshunt.backend.errors import BadInput
from kshunt.backend.rehearsal.deadline import rounded, throttle_for
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.run import rehearse
from tests.support.rehearsals import FAST, MB, situation, to_the_third


@pytest.mark.parametrize("deadline_s", [10, 30, 299])
def test_it_is_the_least_that_is_enough(deadline_s: float) -> None:
    picture = Picture(situation(), capacities=FAST)
    found = throttle_for(picture, to_the_third(), deadline_s)
    assert found.possible
    assert found.throttle_bytes_per_s is not None
    assert 300 * MB / deadline_s <= found.throttle_bytes_per_s <= 1.2 * 300 * MB / deadline_s
    assert found.rehearsal.finish_s is not None
    assert found.rehearsal.finish_s <= deadline_s
    assert found.needs == {
        1: (0.0, pytest.approx(300 * MB / deadline_s)),
        3: (pytest.approx(300 * MB / deadline_s), 0.0),
    }


def test_what_producers_write_is_reckoned_with() -> None:
    picture = Picture(situation(rate=2.0 * MB), capacities=FAST)
    found = throttle_for(picture, to_the_third(), 60)
    # 300 MB and what is written meanwhile, and in-sync followers that count against it: 5 + 6 + 6.
    assert found.throttle_bytes_per_s == pytest.approx(17 * MB, rel=0.1)
    less = rehearse(picture, to_the_third(), 15 * MB)
    assert less.finish_s is not None
    assert less.finish_s > 60


def test_what_is_not_possible_has_its_earliest_end() -> None:
    picture = Picture(situation(), capacities=FAST)
    found = throttle_for(picture, to_the_third(), 2)
    assert not found.possible
    assert found.rehearsal.finish_s == 3
    assert found.rehearsal.throttle_bytes_per_s is None


@pytest.mark.parametrize("deadline_s", [0, -5, math.inf, math.nan])
def test_a_deadline_that_is_none_is_refused(deadline_s: float) -> None:
    with pytest.raises(BadInput, match="already over"):
        throttle_for(Picture(situation()), to_the_third(), deadline_s)


def test_rates_are_rounded_up() -> None:
    assert [rounded(rate) for rate in (1, 99.1, 1_001, 12_345_678, 9_900_001)] == [
        1,
        100,
        1_100,
        13_000_000,
        10_000_000,
    ]
