"""Deadlines as they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.text.deadlines import DAYS_MOST, deadline_s
from kshunt.backend.errors import BadInput

BERLIN = ZoneInfo("Europe/Berlin")
DAY_S = 86_400


def ms(*when: int, tz: timezone | ZoneInfo = UTC) -> int:
    return round(datetime(*when, tzinfo=tz).timestamp() * 1000)  # type: ignore[misc, arg-type]


NOW_MS = ms(2026, 11, 22, 22, 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5_400),
        ("90min", 5_400),
        ("8h", 28_800),
        ("8H", 28_800),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        ("1.5h", 5_400),
        ("2d", 172_800),
        ("45s", 45),
        (" 8h ", 28_800),
        ("06:00", 8 * 3_600),
        ("6:00", 8 * 3_600),
        ("22:30", 1_800),
        ("22:00", DAY_S),
        ("21:59", DAY_S - 60),
        ("00:00", 7_200),
        ("2026-11-23 06:00", 8 * 3_600),
        ("2026-11-23T06:00", 8 * 3_600),
        ("2027-11-22 22:00", 365 * DAY_S),
    ],
)
def test_what_is_meant(text: str, seconds: float) -> None:
    assert deadline_s(text, NOW_MS, UTC) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "90",
        "8 o'clock",
        "24:00",
        "06:60",
        "6:0",
        "-8h",
        "0m",
        "0h0m",
        "h",
        "m8",
        "30m1h",
        "06:00 2026-11-23",
        "2026-13-01 06:00",
        "2026-02-30 06:00",
        "2026-11-22 21:59",
        "2026-11-22 22:00",
        "2020-01-01 00:00",
        "367d",
        "9999-12-31 23:59",
        "0001-01-01 00:00",
        "9" * 400 + "h",
        "٣h",
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can_be_typed(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        deadline_s(text, NOW_MS, UTC)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("text", "words", "advice"),
    [
        ("21:59 today", "'21:59 today' is not a deadline.", "Type a time (06:00)"),
        ("24:00", "'24:00' is not a deadline.", "Type a time (06:00)"),
        ("0m", "'0m' is already over.", "Type a time (06:00)"),
        ("2026-11-22 22:00", "'2026-11-22 22:00' is already over.", "Type a time (06:00)"),
        ("2025-11-20 22:00", "'2025-11-20 22:00' is already over.", "Type a time (06:00)"),
        ("367d", "'367d' is 367d from now.", "The maximum is 366 days."),
        ("2027-11-24 22:00", "'2027-11-24 22:00' is 367d from now.", "The maximum is 366 days."),
        ("9999-12-31 23:59", "'9999-12-31 23:59' is 99999d from now.", "The maximum is 366 days."),
        ("9" * 41, f"'{'9' * 40}...' is not a deadline.", "Type a time (06:00)"),
        ("9" * 40, f"'{'9' * 40}' is not a deadline.", "Type a time (06:00)"),
    ],
)
def test_why_it_is_no_deadline_is_said(text: str, words: str, advice: str) -> None:
    with pytest.raises(BadInput) as caught:
        deadline_s(text, NOW_MS, UTC)
    assert (caught.value.message, caught.value.advice[: len(advice)]) == (words, advice)


def test_the_latest_deadline_is_a_leap_year_ahead() -> None:
    assert deadline_s("366d", NOW_MS, UTC) == 366 * DAY_S
    assert deadline_s("2027-11-23 22:00", NOW_MS, UTC) == 366 * DAY_S


def test_the_clock_of_another_place() -> None:
    assert deadline_s("06:00", NOW_MS, BERLIN) == 7 * 3_600
    assert deadline_s("06:00", NOW_MS, timezone(timedelta(hours=-8))) == 16 * 3_600


def test_this_machines_clock_counts_where_no_place_is_named() -> None:
    there = datetime.fromtimestamp(NOW_MS / 1000).astimezone() + timedelta(minutes=90)
    assert deadline_s(f"{there:%H:%M}", NOW_MS, None) == 5_400


def test_a_time_that_comes_twice_is_the_first_one_ahead() -> None:
    night = ms(2026, 10, 25, 1, 0, tz=BERLIN)
    assert deadline_s("02:30", night, BERLIN) == 5_400
    between = night + 6_000_000
    assert deadline_s("02:30", between, BERLIN) == 3_000


def test_a_time_that_clocks_pass_over_is_the_one_of_the_next_day() -> None:
    night = ms(2026, 3, 29, 1, 0, tz=BERLIN)
    assert deadline_s("02:30", night, BERLIN) == DAY_S + 1_800
    with pytest.raises(BadInput, match="clocks skip 02:30 on 2026-03-29"):
        deadline_s("2026-03-29 02:30", night, BERLIN)


def test_a_night_with_more_hours_is_longer() -> None:
    evening = ms(2026, 10, 24, 22, 0, tz=BERLIN)
    assert deadline_s("06:00", evening, BERLIN) == 9 * 3_600


@given(st.text(max_size=50), st.integers(0, 4 * 10**12))
def test_a_deadline_is_refused_or_ahead(text: str, now_ms: int) -> None:
    try:
        found = deadline_s(text, now_ms, UTC)
    except BadInput:
        return
    assert 0 < found <= DAYS_MOST * DAY_S


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 4 * 10**12))
def test_a_time_of_day_is_within_a_day_and_strikes(hour: int, minute: int, now_ms: int) -> None:
    found = deadline_s(f"{hour:02d}:{minute:02d}", now_ms, UTC)
    assert 0 < found <= DAY_S
    struck = datetime.fromtimestamp(round(now_ms / 1000 + found), UTC)
    assert (struck.hour, struck.minute, struck.second) == (hour, minute, 0)
