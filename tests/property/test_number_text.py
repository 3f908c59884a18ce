"""How sizes, rates, counts and durations are written: laws for every value."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kshunt.backend.domain.planning.goals import parse_size
from kshunt.backend.domain.text.axes import Unit, duration_ticks, moment_ticks, value_ticks
from kshunt.backend.domain.text.deadlines import DAYS_MOST, deadline_s
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    count_text,
    duration_text,
    limit_text,
    percent_done_text,
    rate_text,
    terse_rate_text,
)
from kshunt.backend.domain.text.plots import Series, plot_lines
from kshunt.backend.domain.throttles.configs import (
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    parse_rate,
)

NAN, INF = math.nan, math.inf
AMOUNTS = st.floats(0, 9.9e18) | st.integers(0, 2**63 - 1)
RATES = st.integers(RATE_MIN_BYTES_PER_S, RATE_MAX_BYTES_PER_S)
SECONDS = st.floats(0, 1e12) | st.just(INF) | st.just(NAN)


@given(AMOUNTS)
def test_amounts_never_pass_their_columns(value: float) -> None:
    assert len(bytes_text(value)) <= 7
    assert len(bytes_text(value, tight=True)) <= 6
    assert len(count_text(value, tight=True)) <= 5
    assert len(terse_rate_text(value)) <= 4


@given(st.floats(-9e18, 9e18) | st.none() | st.just(NAN))
def test_rates_never_pass_their_columns(value: float | None) -> None:
    for text in (rate_text, limit_text):
        assert len(text(value)) <= 10
        assert len(text(value, tight=True)) <= 6


@given(SECONDS)
def test_durations_never_pass_six_characters(value: float) -> None:
    assert len(duration_text(value)) <= 6


_POWERS = {unit: 10.0 ** (3 * power) for power, unit in enumerate(("", *"kMGTPE"))}


def read(text: str) -> float:
    """A scaled number as it is written."""
    number = text.removesuffix("/s").removesuffix("B").replace(",", "").replace(" ", "")
    unit = number[-1] if number[-1] in _POWERS else ""
    return float(number.removesuffix(unit)) * _POWERS[unit]


@pytest.mark.parametrize(
    "text",
    [
        bytes_text,
        lambda value: bytes_text(value, tight=True),
        rate_text,
        lambda value: rate_text(value, tight=True),
        terse_rate_text,
        count_text,
        lambda value: count_text(value, tight=True),
    ],
)
@given(one=st.floats(0, 9e17), other=st.floats(0, 9e17))
def test_what_is_larger_is_never_written_as_smaller(
    text: Callable[[float], str], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert read(text(low)) <= read(text(high))
    # Two figures at least.
    assert read(text(high)) == pytest.approx(high, rel=0.051, abs=0.51)


@given(st.floats(0, 9e17))
def test_a_size_reads_back(size: float) -> None:
    for text in (bytes_text(size), bytes_text(size, tight=True)):
        assert parse_size(text) == pytest.approx(size, rel=0.006, abs=0.51)


@given(RATES)
def test_a_rate_reads_back(rate: int) -> None:
    for text in (rate_text(rate), rate_text(rate, tight=True)):
        assert parse_rate(text) == pytest.approx(rate, rel=0.006)
    assert parse_rate(terse_rate_text(rate)) == pytest.approx(rate, rel=0.051)
    assert parse_rate(limit_text(None)) is None


@given(st.floats(1, DAYS_MOST * 86_400), st.floats(1, DAYS_MOST * 86_400))
def test_a_duration_reads_back_and_a_longer_one_is_never_written_as_shorter(
    one: float, other: float
) -> None:
    shorter, longer = sorted((one, other))
    read_s = deadline_s(duration_text(longer), 0, None)
    within_s = 0.51 if longer < 3599 else 60.5 if longer < 86_399 else longer / 24
    assert read_s == pytest.approx(longer, abs=within_s)
    assert deadline_s(duration_text(shorter), 0, None) <= read_s


@given(st.floats(0, 1))
def test_all_is_done_at_the_end_only(share: float) -> None:
    assert (percent_done_text(share) == "100%") == (share == 1)
    assert int(percent_done_text(share)[:-1]) == pytest.approx(share * 100, abs=1)


@given(st.floats(1e-3, 1e18), st.sampled_from(Unit), st.integers(2, 8))
def test_ticks_of_values_are_round_and_end_at_the_top(top: float, unit: Unit, most: int) -> None:
    values = [value for value, _ in value_ticks(top, unit, most)]
    assert len(values) <= most + 1
    assert values[0] == 0
    assert values[-2] < top <= values[-1] * (1 + 1e-9)
    if unit is not Unit.SECONDS:
        assert f"{values[1]:.6e}"[:1] in "125"
        assert float(f"{values[1]:.0e}") == pytest.approx(values[1])


@given(st.integers(0, 10**13), st.integers(1_000, 10**11), st.integers(1, 10))
def test_ticks_of_times_lie_within(first_ms: int, span_ms: int, most: int) -> None:
    moments = moment_ticks(first_ms, first_ms + span_ms, most)
    assert len(moments) <= most + 1
    assert all(first_ms <= at_ms <= first_ms + span_ms for at_ms, _ in moments)
    ages = duration_ticks(-span_ms / 1000, 0, most)
    assert ages[-1][1] == "now"
    assert len(ages) <= most + 1
    assert all(text.endswith(" ago") for _, text in ages[:-1])


VALUES = st.floats(0, 1e15) | st.just(NAN)


@example([(0.0, NAN), (NAN, 5e-324)], 30, 4, False)
@given(
    st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=400),
    st.integers(30, 120),
    st.integers(4, 20),
    st.booleans(),
)
def test_a_plot_keeps_to_its_frame(
    points: list[tuple[float, float]], width: int, height: int, braille: bool
) -> None:
    at = [1_763_000_000_000 + 1_000.0 * place for place in range(len(points))]
    series = [Series([point[side] for point in points], mark) for side, mark in enumerate("-*")]
    ticks = moment_ticks(at[0], at[-1], 3)
    lines = plot_lines(at, series, Unit.BYTES, ticks, width, height, braille=braille)
    known = any(not math.isnan(value) for point in points for value in point)
    assert len(lines) == (height if known else 0)
    assert all(len(line) <= width for line in lines)
    assert braille or "".join(lines).isascii()
