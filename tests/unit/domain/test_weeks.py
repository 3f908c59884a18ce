"""Weeks as ISO 8601 counts them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import Week, day_text, week_of


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW_MS = at("2027-01-04T00:00:00")
"""The first Monday of 2027."""


@pytest.mark.parametrize(
    ("moment", "week"),
    [
        ("2026-11-16T00:00:00", "2026-W47"),
        ("2026-11-22T23:59:59.999", "2026-W47"),
        ("2026-11-23T00:00:00", "2026-W48"),
        # The year of a week is that of its Thursday.
        ("2026-12-31T12:00:00", "2026-W53"),
        ("2027-01-03T23:59:59", "2026-W53"),
        ("2027-01-04T00:00:00", "2027-W01"),
        ("2024-12-30T00:00:00", "2025-W01"),
        ("2028-01-01T00:00:00", "2027-W52"),
    ],
)
def test_a_moment_is_in_its_week(moment: str, week: str) -> None:
    found = Week.at(at(moment))
    assert str(found) == week
    assert found.from_ms <= at(moment) < found.to_ms


@pytest.mark.parametrize(
    ("text", "week"),
    [
        ("last", "2026-W53"),
        ("this", "2027-W01"),
        ("2026-W53", "2026-W53"),
        ("2027-W01", "2027-W01"),
        ("2026-12-31", "2026-W53"),
        ("2027-01-03", "2026-W53"),
        ("2027-01-10", "2027-W01"),
    ],
)
def test_a_week_is_read(text: str, week: str) -> None:
    assert str(week_of(text, NOW_MS)) == week


@pytest.mark.parametrize(
    "text",
    ["", "2025-W53", "2026-W00", "2026-W54", "2026-W1", "2026-w47", "2026-13-01", "2026-02-30",
     "47", "0000-W01", "1970-W01", "9999-W52", "٢٠٢٦-W47", "2026-W47 ", "20261117"],
)  # fmt: skip
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a week"):
        week_of(text, NOW_MS)


def test_a_week_that_has_not_begun_is_refused() -> None:
    with pytest.raises(ValueError, match="week 2027-W02 has not begun"):
        week_of("2027-W02", NOW_MS)
    assert week_of("2027-W02", NOW_MS + 7 * DAY_MS)


def test_days_have_names() -> None:
    week = week_of("2026-W53", NOW_MS)
    names = [day_text(day) for day in week.days_ms]
    assert names[0] == "Mon 2026-12-28"
    assert names[-1] == "Sun 2027-01-03"


@given(st.dates(date(1971, 1, 4), date(9998, 12, 31)))
def test_weeks_follow_each_other_without_a_gap(day: date) -> None:
    week = Week.at(at(day.isoformat()))
    assert week.before.to_ms == week.from_ms
    assert week.before < week
    assert len(week.days_ms) == 7
    assert week_of(str(week), at("9998-12-31")) == week
    assert datetime.fromtimestamp(week.from_ms / 1000, UTC).isoweekday() == 1
