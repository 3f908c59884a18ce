"""How values are written: exact words."""

import math

import pytest

from kshunt.backend.domain.text.axes import Unit, duration_ticks, moment_ticks, value_ticks
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    clock_text,
    count_text,
    duration_text,
    eta_text,
    exact_rate_text,
    file_time_text,
    limit_text,
    listed,
    many,
    message_rate_text,
    moment_text,
    percent_done_text,
    percent_text,
    rate_text,
    terse_rate_text,
)
from kshunt.backend.domain.text.plots import Series, plot_lines

NAN, INF = math.nan, math.inf
AT_MS = 1_763_780_645_000
"""2025-11-22 03:04:05 UTC."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.00 kB"),
        (1_000, "1.00 kB"),
        (12_345_678, "12.3 MB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (1_234_000_000, "1.23 GB"),
        (9.996e9, "10.0 GB"),
        (2**63, "9.22 EB"),
        (-1, "?"),
        (NAN, "?"),
        (None, "?"),
    ],
)
def test_sizes_have_three_figures_and_unknown_is_no_number(value: float | None, text: str) -> None:
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text", "tight"),
    [
        (25_000_000, "25.0 MB/s", "25.0MB"),
        (-2_500_000, "-2.50 MB/s", "-2.5MB"),
        (0.0, "0 B/s", "0B"),
        (-0.2, "0 B/s", "0B"),
        (999.4, "999 B/s", "999B"),
        (-999.6, "-1.00 kB/s", "-1.0kB"),
        (9_994, "9.99 kB/s", "9.99kB"),
        (9_996, "10.0 kB/s", "10.0kB"),
        (99_940, "99.9 kB/s", "99.9kB"),
        (99_960, "100 kB/s", "100kB"),
        (-99_600, "-99.6 kB/s", "-100kB"),
        (999_499, "999 kB/s", "999kB"),
        (999_500, "1.00 MB/s", "1.00MB"),
        (NAN, "?", "?"),
    ],
)
def test_rates(value: float, text: str, tight: str) -> None:
    assert rate_text(value) == limit_text(value) == text
    assert rate_text(value, tight=True) == limit_text(value, tight=True) == tight


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "none"),
        (0, "0 B/s"),
        (999, "999 B/s"),
        (1_000, "1 kB/s"),
        (1_001, "1.001 kB/s"),
        (999_999, "999.999 kB/s"),
        (10**6, "1 MB/s"),
        (26_214_400, "26.2144 MB/s"),
        (10**9, "1 GB/s"),
        (10**12 + 10, "1000.00000001 GB/s"),
    ],
)
def test_an_exact_rate_has_all_its_figures(rate: int | None, text: str) -> None:
    assert exact_rate_text(rate) == text


def test_tight_sizes_have_no_space() -> None:
    sizes = (0, 999, 1_000, 12_345_678, None, NAN, -1)
    texts = ["0B", "999B", "1.00kB", "12.3MB", "?", "?", "?"]
    assert [bytes_text(size, tight=True) for size in sizes] == texts


def test_the_largest_unit_has_as_many_figures_as_it_takes() -> None:
    assert bytes_text(9.9e20) == "990 EB"
    assert bytes_text(1.5e22) == "15000 EB"


def test_a_rate_that_is_not_known_and_a_throttle_that_is_not_set() -> None:
    assert rate_text(None) == "?"
    assert limit_text(None) == limit_text(None, tight=True) == "none"


def test_a_terse_rate_has_four_characters() -> None:
    rates = (8_310_000, 25e6, 950_000, 9_960, 999, 999_600, 1.2e9, 0, NAN)
    texts = ["8.3M", "25M", "950k", "10k", "999", "1.0M", "1.2G", "0", "?"]
    assert [terse_rate_text(rate) for rate in rates] == texts


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (8, "8s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (133, "2m13s"),
        (59.5, "1m00s"),
        (60, "1m00s"),
        (3_599, "59m59s"),
        (3_600, "1h00m"),
        (3_840, "1h04m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (180_000, "2d02h"),
        (8_639_999, "99d23h"),
        (8_640_000, "100d"),
        (99_999 * 86_400, "99999d"),
        (1e12, "99999d"),
        (-1, "?"),
        (NAN, "?"),
        (None, "?"),
        (INF, "never"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_an_eta_that_never_comes_is_said_in_words_where_they_fit() -> None:
    assert eta_text(INF) == "not at this rate"
    assert eta_text(INF, 6) == eta_text(INF, 15) == "never"
    assert eta_text(INF, 16) == "not at this rate"
    assert eta_text(90, 6) == "1m30s"
    assert eta_text(NAN) == "?"


def test_counts() -> None:
    assert count_text(1_234_567) == "1,234,567"
    assert count_text(1_234_567, tight=True) == "1.23M"
    assert count_text(-1) == count_text(None) == count_text(NAN) == "?"
    assert (count_text(0), count_text(0, tight=True)) == ("0", "0")
    assert count_text(99_999.4, tight=True) == "99999"
    assert count_text(99_999.5, tight=True) == "100k"
    assert message_rate_text(-2_500.4) == "-2,500/s"
    assert message_rate_text(-0.2) == "0/s"
    assert many(1, "partition") == "1 partition"
    assert many(2_000, "partition") == "2,000 partitions"
    assert many(2, "copy", "copies") == "2 copies"
    assert many(0, "partition") == "0 partitions"
    assert listed("abcdefgh", 3) == "a, b, c and 5 more"
    assert (listed("abcde"), listed("abcdef")) == ("a, b, c, d, e", "a, b, c, d, e and 1 more")
    assert listed("") == ""
    assert listed(range(2_000), 1) == "0 and 1,999 more"


def test_shares() -> None:
    shares = (0, 0.459, 0.9999, 1, 3.5, NAN, None)
    assert [percent_text(one) for one in shares] == ["0%", "46%", "100%", "100%", "350%", "?", "?"]
    done = [percent_done_text(one) for one in shares]
    assert done == ["0%", "45%", "99%", "100%", "350%", "?", "?"]


def test_moments() -> None:
    assert moment_text(AT_MS) == "2025-11-22 03:04:05 UTC"
    assert file_time_text(AT_MS) == "20251122T030405Z"
    assert moment_text(None) == "?"
    assert moment_text(10**18) == f"{10**18} ms"
    assert (clock_text(AT_MS), clock_text(AT_MS, seconds=True)) == ("03:04", "03:04:05")


def test_axes_have_round_ticks() -> None:
    assert value_ticks(16e9, Unit.BYTES) == [
        (0, "0 B"), (5e9, "5.00 GB"), (10e9, "10.0 GB"), (15e9, "15.0 GB"), (20e9, "20.0 GB"),
    ]  # fmt: skip
    assert value_ticks(840, Unit.SECONDS)[1:] == [(300, "5m00s"), (600, "10m00s"), (900, "15m00s")]
    assert value_ticks(2, Unit.COUNT) == [(0, "0"), (1, "1"), (2, "2")]
    assert value_ticks(0, Unit.BYTES_PER_S) == [(0, "0 B/s"), (1, "1 B/s")]
    assert [text for _, text in moment_ticks(AT_MS, AT_MS + 420_000)][:2] == ["03:05", "03:06"]
    assert [text for _, text in moment_ticks(AT_MS, AT_MS + 9_000, 4)][:2] == [
        "03:04:05",
        "03:04:10",
    ]
    assert [text for _, text in moment_ticks(AT_MS, AT_MS + 2 * 86_400_000, 2)] == [
        "11-23 00:00", "11-24 00:00",
    ]  # fmt: skip
    assert [text for _, text in duration_ticks(-400, 0, 4)] == [
        "6m00s ago", "4m00s ago", "2m00s ago", "now",
    ]  # fmt: skip
    assert [text for _, text in duration_ticks(0, 100, 4)] == ["0s", "30s", "1m00s", "1m30s"]


def test_a_plot_has_a_gap_where_nothing_is_known() -> None:
    values = [4.0, 4.0, NAN, NAN, NAN, 1.0, 1.0]
    lines = plot_lines(range(7), [Series(values)], Unit.COUNT, duration_ticks(0, 6, 3), 40, 8)
    assert lines[0].startswith("4+*****")
    assert "      *" in lines[-4]
    assert lines[-1].split() == ["0s", "2s", "4s", "6s"]
    assert not plot_lines([0, 1], [Series([NAN, NAN])], Unit.COUNT, (), 40, 8)
    assert not plot_lines([0], [Series([1.0])], Unit.COUNT, (), 40, 8)
