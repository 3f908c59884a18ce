"""The course of a rehearsal, thinned for a plot: no peak is lost."""

from __future__ import annotations

import numpy as np
import pytest

from kshunt.backend.domain.planning.rehearsal import Timeline


def course(*rates: float) -> Timeline:
    """One broker's rates, a second apart; everything else follows from them."""
    at_s = np.arange(len(rates), dtype=np.float64)
    columns = np.array(rates, np.float64).reshape(-1, 1)
    counts = np.array(rates, np.int64)
    return Timeline(at_s, 100 - at_s, columns, columns + 1, columns + 2, counts, counts + 3)


def test_each_point_keeps_the_most_of_what_it_stands_for() -> None:
    found = course(5, 1, 9, 2, 3, 8, 4).thinned(3)
    assert found.at_s.tolist() == [0, 3, 6]
    assert found.remaining_bytes.tolist() == [100, 97, 94]
    assert found.received_bytes_per_s.tolist() == [[5], [9], [8]]
    assert found.sent_bytes_per_s.tolist() == [[6], [10], [9]]
    assert found.disk_bytes.tolist() == [[7], [11], [10]]
    assert found.out_of_sync.tolist() == [5, 9, 8]
    assert found.under_min_isr.tolist() == [8, 12, 11]


def test_a_peak_counts_for_the_point_that_ends_at_it_and_for_no_later_one() -> None:
    found = course(5, 1, 2, 9, 3, 4, 4).thinned(3)
    assert found.received_bytes_per_s.tolist() == [[5], [9], [4]]


def test_a_short_course_stays_as_it_is() -> None:
    whole = course(1, 2, 3)
    assert whole.thinned(3) is whole
    assert len(whole.thinned(2)) == 2
    assert whole.thinned(2).at_s.tolist() == [0, 2]


@pytest.mark.parametrize("points", [1, 0, -1])
def test_a_course_has_two_points_at_least(points: int) -> None:
    with pytest.raises(ValueError, match=f"{points} points are not enough for a curve"):
        course(1, 2).thinned(points)
