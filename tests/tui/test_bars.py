"""Small plots and bars in characters, to the cell."""

from __future__ import annotations

import math

import pytest

from kshunt.tui.text.bars import area, bar, sparkline, spread
from kshunt.tui.text.glyphs import ASCII, UNICODE

NAN = math.nan


@pytest.mark.parametrize(
    ("share", "width", "blocks", "plain"),
    [
        (0.5, 3, "", ""),
        (0.5, 4, "━━──", "[#-]"),
        (0.0, 8, "────────", "[------]"),
        (-1.0, 8, "────────", "[------]"),
        (NAN, 8, "────────", "[------]"),
        (0.001, 8, "━───────", "[#-----]"),
        (0.25, 8, "━━──────", "[##----]"),
        (0.999, 8, "━━━━━━━─", "[#####-]"),
        (1.0, 8, "━━━━━━━━", "[######]"),
        (7.0, 8, "━━━━━━━━", "[######]"),
    ],
)
def test_a_bar_is_full_only_at_the_end(share: float, width: int, blocks: str, plain: str) -> None:
    assert bar(share, width, UNICODE) == blocks
    assert bar(share, width, ASCII) == plain


@pytest.mark.parametrize(
    ("values", "width", "dots", "plain"),
    [
        ([], 4, "", ""),
        ([1.0], 0, "", ""),
        ([4.0], 2, " ⢸", " #"),
        ([0.0, 1, 2, 3, 4], 3, " ⣠⣾", "_-#"),
        ([1.0, 0.0], 1, "⡇", "#"),
        ([4.0, NAN, 4.0, 4.0], 2, "⡇⣿", "##"),
        ([0.001, 4.0], 1, "⣸", "#"),
    ],
)
def test_a_sparkline_has_the_newest_at_the_right(
    values: list[float], width: int, dots: str, plain: str
) -> None:
    assert sparkline(values, width, UNICODE) == dots
    assert sparkline(values, width, ASCII) == plain


@pytest.mark.parametrize(
    ("count", "found"),
    [(1, [0]), (2, [0, 4]), (3, [0, 2, 4]), (5, [0, 1, 2, 3, 4]), (9, [0, 0, 1, 2, 2, 2, 3, 4, 4])],
)
def test_values_are_left_out_or_repeated(count: int, found: list[float]) -> None:
    assert spread([0, 1, 2, 3, 4], count) == found


def test_nothing_is_spread_as_nothing_known() -> None:
    assert all(math.isnan(value) for value in spread([], 3))


@pytest.mark.parametrize(
    ("values", "limits", "rows", "top"),
    [
        ([4, 8], [], [" #", "##"], 8),
        ([8, 8], [4, 4], ["##", "--"], 8),
        ([4, 4], [8, 8], ["--", "##"], 8),
        ([8, 8], [NAN, 8], ["#-", "##"], 8),
        ([1, NAN], [], ["# ", "# "], 1),
        ([0.001, 8], [], [" #", ".#"], 8),
        ([8, 8], [0, 0], ["##", "--"], 8),
    ],
)
def test_an_area_lies_under_its_limit(
    values: list[float], limits: list[float], rows: list[str], top: float
) -> None:
    assert area(values, limits, 2, 2, ASCII) == (rows, top)


@pytest.mark.parametrize(
    ("values", "width", "height", "rows"),
    [
        ([], 3, 2, ["   ", "   "]),
        ([0.0], 3, 1, ["   "]),
        ([1.0], 0, 2, ["", ""]),
        ([1.0], 3, 0, []),
    ],
)
def test_an_area_of_nothing_is_empty(
    values: list[float], width: int, height: int, rows: list[str]
) -> None:
    assert area(values, [], width, height, ASCII) == (rows, 0.0)


def test_braille_shows_two_values_a_cell() -> None:
    assert area([4, 8, 8, 8], [], 2, 2, UNICODE) == (["⢸⣿", "⣿⣿"], 8)
