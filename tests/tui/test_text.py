"""Text in cells: it fits, and nothing in it drives a terminal."""

import math

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kshunt.backend.domain.throttles.configs import (
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    parse_rate,
)
from kshunt.tui.facts.pending_rates import typed_rate
from kshunt.tui.text.bars import sparkline
from kshunt.tui.text.fitting import fit, fit_middle, join_fitting, printable
from kshunt.tui.text.glyphs import ASCII, UNICODE, Glyphs

NAN = math.nan
GLYPHS = st.sampled_from([UNICODE, ASCII])


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
    assert sparkline([4, 4, 0, 0], 2) == "⣿ "


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
