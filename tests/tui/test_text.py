"""How values are written: exact words, and laws for every value."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kshunt.backend.domain.throttles.configs import (
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    parse_rate,
)
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.text.formatting import (
    ASCII,
    UNICODE,
    Glyphs,
    bytes_text,
    count_text,
    duration_text,
    eta_text,
    fit,
    fit_middle,
    join_fitting,
    names_text,
    plural,
    printable,
    rate_text,
    sparkline,
    speed_text,
)

NAN, INF = math.nan, math.inf
AMOUNTS = st.floats(0, 9.9e18) | st.integers(0, 2**63 - 1)
GLYPHS = st.sampled_from([UNICODE, ASCII])


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
        (-1, "?"),
        (NAN, "?"),
    ],
)
def test_bytes_have_three_figures_and_unknown_is_no_number(value: float, text: str) -> None:
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text", "tight"),
    [
        (25_000_000, "25.0 MB/s", "25.0MB"),
        (-2_500_000, "-2.50 MB/s", "-2.5MB"),
        (0.0, "0 B/s", "0B"),
        (NAN, "?", "?"),
        (None, "none", "none"),
    ],
)
def test_rates(value: float | None, text: str, tight: str) -> None:
    assert rate_text(value) == text
    assert rate_text(value, tight=True) == tight


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (133, "2m13s"),
        (3_840, "1h04m"),
        (180_000, "2d02h"),
        (8_640_000, "100d"),
        (NAN, "?"),
        (INF, "never"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_an_eta_that_never_comes_is_said_in_words_where_they_fit() -> None:
    assert eta_text(INF) == "not at this rate"
    assert eta_text(INF, 6) == "never"
    assert eta_text(NAN) == "?"


def test_counts() -> None:
    assert count_text(1_234_567) == "1,234,567"
    assert count_text(1_234_567, tight=True) == "1.23M"
    assert count_text(-1) == "?"
    assert speed_text(-2_500.4) == "-2,500/s"
    assert speed_text(-0.2) == "0/s"
    assert plural(1, "partition") == "1 partition"
    assert plural(1_204, "partition") == "1,204 partitions"
    assert names_text("abcdefgh", 3) == "a, b, c and 5 more"


@given(AMOUNTS)
def test_tight_amounts_never_pass_their_column(value: float) -> None:
    assert len(bytes_text(value, tight=True)) <= 6
    assert len(bytes_text(value)) <= 7
    assert len(count_text(value, tight=True)) <= 5


@given(st.floats(-9e18, 9e18))
def test_rates_never_pass_their_column(value: float) -> None:
    assert len(rate_text(value, tight=True)) <= 6
    assert len(rate_text(value)) <= 10


@given(st.floats(0, 1e12) | st.just(INF) | st.just(NAN))
def test_durations_never_pass_six_cells(value: float) -> None:
    assert len(duration_text(value)) <= 6


@given(st.floats(1, 9e17), st.floats(1, 9e17))
def test_a_larger_amount_is_never_written_as_a_smaller_one(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert _read(bytes_text(low)) <= _read(bytes_text(high))


def _read(text: str) -> float:
    number, unit = text.split(" ")
    power = ("B", "kB", "MB", "GB", "TB", "PB", "EB").index(unit)
    return float(number) * 10.0 ** (3 * power)


@given(st.text(), st.integers(0, 60), GLYPHS)
def test_fitted_text_has_exactly_the_width(text: str, width: int, glyphs: Glyphs) -> None:
    clean = printable(text)
    assert cell_len(fit(clean, width, glyphs)) == width
    assert cell_len(fit(clean, width, glyphs, right=True)) == width
    assert cell_len(fit_middle(clean, width, glyphs)) == width


def test_names_are_cut_in_the_middle() -> None:
    assert fit_middle("clickstream-web-sessions-eu-west-1", 16) == "clickstr…-west-1"
    assert fit_middle("clickstream-web-sessions-eu-west-1", 16, ASCII) == "clickstr~-west-1"


@given(st.text())
def test_nothing_printable_can_drive_a_terminal(text: str) -> None:
    clean = printable(text)
    assert not any(ord(character) < 32 or ord(character) == 127 for character in clean)
    assert not any("\x80" <= character <= "\x9f" for character in clean)
    assert clean == printable(clean)


def test_escape_sequences_and_overrides_are_defused() -> None:
    assert printable("a\x1b[2Jb") == "a?[2Jb"
    assert printable("a\u202eb\u200bc\nd") == "a?b?c d"
    assert printable("Zürich 東京") == "Zürich 東京"


@given(st.lists(st.floats(0, 1e15) | st.just(NAN) | st.just(-1.0)), st.integers(0, 40), GLYPHS)
def test_a_sparkline_is_as_wide_as_asked_or_empty(
    values: list[float], width: int, glyphs: Glyphs
) -> None:
    line = sparkline(values, width, glyphs)
    assert len(line) == (width if values else 0)
    assert glyphs is UNICODE or line.isascii()


def test_a_sparkline_falls_as_its_values_do() -> None:
    assert sparkline([4, 3, 2, 1, 0], 5, ASCII) == "#=-._"
    assert sparkline([NAN, 4, 0], 3, ASCII) == " #_"
    assert sparkline([4, 4, 0, 0], 2) == "⣿⠀"


def test_what_matters_least_is_left_out_first() -> None:
    assert join_fitting(["abc", "de", "f"], 8, " - ") == "abc - de"
    assert join_fitting(["abc", "de", "f"], 2, " - ") == ""


@given(st.integers(RATE_MIN_BYTES_PER_S, RATE_MAX_BYTES_PER_S) | st.none())
def test_a_rate_that_is_offered_for_editing_reads_back_exactly(rate: int | None) -> None:
    assert parse_rate(typed_rate(rate)) == rate


def test_every_glyph_takes_one_cell() -> None:
    for glyphs in (UNICODE, ASCII):
        for name in ("mark", "preferred", "ascending", "descending", "ellipsis", "dot", "alert"):
            assert cell_len(getattr(glyphs, name)) == 1
    assert all(
        getattr(ASCII, name).isascii() for name in Glyphs.__dataclass_fields__ if name != "spark"
    )
