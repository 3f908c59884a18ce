"""Ends in words, by the clock of the person who reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.backend.domain.forecast.end_words import (
    apart_text,
    bottleneck_texts,
    clock_text,
    deadline_text,
    end_text,
    full_text,
    never_text,
)
from kshunt.backend.domain.replicas.expected_end_values import (
    Bottleneck,
    DeadlineCheck,
    ExpectedEnd,
    Resource,
    ResourceKind,
    Shortage,
)

NOON_MS = 1_764_072_000_000
"""2025-11-25 12:00 UTC, a Tuesday."""
HOUR_S = 3_600.0
LEADER = Resource(ResourceKind.LEADER_THROTTLE, (7,))
FOLLOWER = Resource(ResourceKind.FOLLOWER_THROTTLE, (15,))
SOON = ExpectedEnd(
    NOON_MS,
    9,
    14 * 60.0,
    16 * 60.0,
    20 * 60.0,
    bottlenecks=(Bottleneck(FOLLOWER, 9 * 60.0), Bottleneck(LEADER, 16 * 60.0)),
)


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0.5, "12:30"), (11.99, "23:59"), (13, "Wed 01:00"), (6 * 24, "01 Dec 12:00")],
)
def test_a_time_of_day_has_its_day_where_that_is_another_one(hours: float, text: str) -> None:
    assert clock_text(NOON_MS + round(hours * 3_600_000), NOON_MS) == text


@pytest.mark.parametrize(
    ("holds", "needs", "text"),
    [
        (None, None, "deadline 18:00"),
        (True, None, "deadline 18:00 holds"),
        (False, 55_000_000, "misses its deadline 18:00, needs 55.0 MB/s"),
        (False, None, "misses its deadline 18:00 at any throttle"),
    ],
)
def test_a_deadline_says_whether_it_holds_and_what_would_do(
    holds: bool | None, needs: int | None, text: str
) -> None:
    found = DeadlineCheck(NOON_MS + 6 * 3_600_000, holds, needs)
    assert deadline_text(replace(SOON, deadline=found), NOON_MS) == text
    assert text in full_text(replace(SOON, deadline=found), NOON_MS).split("; ")
    assert deadline_text(SOON, NOON_MS) == ""


def test_a_range_says_its_day_once() -> None:
    assert end_text(SOON, NOON_MS) == "12:16 (12:14-12:20)"
    assert end_text(SOON, NOON_MS, 10) == "12:16"
    night = ExpectedEnd(NOON_MS, 1, 11 * HOUR_S, 13 * HOUR_S, 15 * HOUR_S)
    assert end_text(night, NOON_MS) == "Wed 01:00 (23:00-Wed 03:00)"
    later = ExpectedEnd(NOON_MS, 1, 13 * HOUR_S, 14 * HOUR_S, 15 * HOUR_S)
    assert end_text(later, NOON_MS) == "Wed 02:00 (01:00-03:00)"
    at_once = ExpectedEnd(NOON_MS, 1, 5.0, 10.0, 20.0)
    assert end_text(at_once, NOON_MS) == "12:00"


def test_an_end_that_has_passed_is_now() -> None:
    assert end_text(SOON, NOON_MS + 18 * 60_000) == "12:18 (12:18-12:20)"


def test_why_there_is_no_end() -> None:
    assert end_text(None, NOON_MS) == end_text(ExpectedEnd(NOON_MS, 0), NOON_MS) == "?"
    new = ExpectedEnd(NOON_MS, 3, unknown=3, watched_s=12.0)
    assert end_text(new, NOON_MS + 1_000) == "measuring 13s"
    assert end_text(ExpectedEnd(NOON_MS, 3, held=3), NOON_MS) == "held"
    low = Shortage(LEADER, 40_000_000, 50_000_000, 55_000_000)
    never = ExpectedEnd(NOON_MS, 3, never=3, shortage=low, why="throttle_too_low")
    assert end_text(never, NOON_MS) == "never"
    assert never_text(never) == "leader throttle of broker 7 is too low, needs 55.0 MB/s"
    link = Shortage(Resource(ResourceKind.LINK, (1, 4)), 1, 2, None)
    assert never_text(ExpectedEnd(NOON_MS, 1, never=1, shortage=link)) == (
        "link 1->4 is slower than the producers"
    )
    assert never_text(ExpectedEnd(NOON_MS, 1, never=1, why="broker_down")) == "broker down"


def test_who_is_not_in_it_and_what_it_waits_for() -> None:
    some = ExpectedEnd(NOON_MS, 9, 840.0, 960.0, 1_200.0, never=3, unknown=2, held=1, waiting=2)
    assert apart_text(some) == "3 never, 1 held, 2 not known yet"
    assert bottleneck_texts(SOON, NOON_MS) == [
        "follower throttle of broker 15 until 12:09",
        "leader throttle of broker 7",
    ]
    assert full_text(SOON, NOON_MS) == (
        "12:16 (12:14-12:20); waits for follower throttle of broker 15 until 12:09, "
        "then leader throttle of broker 7"
    )
    assert full_text(some, NOON_MS) == (
        "12:16 (12:14-12:20) for 3 of 9 replicas, 3 never, 1 held, 2 not known yet; "
        "2 replicas not begun"
    )
    assert full_text(None, NOON_MS) == "?"
