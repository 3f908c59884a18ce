"""Plots in characters: gaps stay gaps, axes are round and fit the data, changes are marked."""

from __future__ import annotations

import math

import pytest

from kshunt.backend.domain.text.axes import Unit, axis_top, duration_ticks
from kshunt.backend.domain.text.plots import Series, plot_lines

AT = [float(at) for at in (*range(-100, -60), *range(-30, 1))]
"""Half a minute is missing."""
GAP = 40
MB = 1_000_000.0


def drawn(*series: Series, marks: tuple[float, ...] = (), breaks: tuple[int, ...] = ()) -> str:
    ticks = duration_ticks(AT[0], AT[-1])
    lines = plot_lines(AT, series, Unit.BYTES_PER_S, ticks, 90, 14, breaks=breaks, marks=marks)
    return "\n".join(lines)


def test_no_line_crosses_a_gap() -> None:
    values = Series([20 * MB] * len(AT))
    bridged, broken = drawn(values), drawn(values, breaks=(GAP,))
    assert max(map(len, bridged.split("*" * 70))) < len(bridged), "without it, one line"
    assert "*" * 40 not in broken
    assert " " * 20 in next(line for line in broken.splitlines() if "**" in line).strip()


@pytest.mark.parametrize("count", [5, 71])
def test_what_is_not_known_is_no_line_in_however_many_points(count: int) -> None:
    at = [float(x) for x in range(10 * count)]
    middle = range(4 * count, 6 * count)
    values = [math.nan if place in middle else 5 * MB for place in range(10 * count)]
    ticks = duration_ticks(at[0], at[-1])
    lines = plot_lines(at, [Series(values)], Unit.BYTES_PER_S, ticks, 60, 14)
    (line,) = [line for line in lines if "***" in line]
    assert " " * 6 in line[11:]


def test_the_axis_is_round_and_fits_what_is_plotted_not_a_limit_far_above() -> None:
    values = [23 * MB] * len(AT)
    far = [760 * MB] * 40 + [40 * MB] * 31
    text = drawn(Series(far, "-", is_limit=True), Series(values))
    assert text.splitlines()[0].startswith("40.0 MB/s")
    assert "760" not in text
    assert "-" * 10 in text.splitlines()[0]
    assert not text.splitlines()[0].startswith("40.0 MB/s+-")
    assert "760" not in drawn(Series([760 * MB] * 71, "-", is_limit=True), Series(values))


def test_limits_alone_have_an_axis_too() -> None:
    assert axis_top([0.0, math.nan], [10.0]) == 10.0
    assert axis_top([8.0], [10.0, 16.0, 17.0]) == 16.0
    assert math.isnan(axis_top([], []))


def test_changes_are_vertical_lines_that_hide_nothing() -> None:
    text = drawn(Series([20 * MB] * len(AT)), marks=(-90.0, -5.0, -5_000.0))
    lines = text.splitlines()
    assert lines[1].count("!") == 2
    assert sum("!" in line for line in lines) >= 10
    assert "*" * 30 in text
