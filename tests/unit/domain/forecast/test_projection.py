"""The bytes that will be left until the ends of a forecast's range."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.forecast.projection import POINTS, projection
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd

BURNDOWN = ((0.0, 1_000), (50.0, 400), (100.0, 0))


def test_the_courses_end_when_the_range_says() -> None:
    found = projection(ExpectedEnd(5_000, 1, 50.0, 100.0, 200.0, burndown=BURNDOWN))
    assert found is not None
    assert (found.at_ms[0], found.at_ms[-1], len(found.at_ms)) == (5_000, 205_000, POINTS)
    at_s = [(at_ms - 5_000) / 1000 for at_ms in found.at_ms]
    for course, end_s in (
        (found.early_bytes, 50.0),
        (found.expected_bytes, 100.0),
        (found.late_bytes, 200.0),
    ):
        assert course[0] == 1_000
        assert list(course) == sorted(course, reverse=True)
        assert next(at for at, left in zip(at_s, course, strict=True) if left == 0) >= end_s - 0.1
        half = [left for at, left in zip(at_s, course, strict=True) if at <= end_s / 2][-1]
        assert half == pytest.approx(400, abs=130)


def test_what_has_no_end_has_no_course() -> None:
    assert projection(ExpectedEnd(0, 1, never=1)) is None
    assert projection(ExpectedEnd(0, 1, 1.0, 2.0, 3.0)) is None
