"""Small plots and bars in characters: braille or blocks, or plain ASCII."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kshunt.tui.text.glyphs import UNICODE, Glyphs

LIMIT_MARKS: Final = {True: "╌", False: "-"}
"""What draws a limit, by whether braille can be shown."""
_LEFT: Final = (0x40, 0x04, 0x02, 0x01)
_RIGHT: Final = (0x80, 0x20, 0x10, 0x08)
"""The dots of a braille cell, from the lowest."""
_CELLS: Final = (
    " "
    + "".join(
        chr(0x2800 + sum(_LEFT[:left]) + sum(_RIGHT[:right]))
        for left in range(5)
        for right in range(5)
    )[1:]
)
"""The cell for each height of its left half times 5, and of its right half."""
_ASCII_LEVELS: Final = "_.-=#"
FULL, REST = "━", "─"
"""Of a bar: thin, so that bars one below the other do not become a block."""


def bar(share: float, width: int, glyphs: Glyphs) -> str:
    """How much of a whole, in `width` cells: `━━━━────`, or `[##--]` in ASCII."""
    if width < 4:
        return ""
    if glyphs.spark:
        full = _whole(share, width)
        return FULL * full + REST * (width - full)
    full = _whole(share, width - 2)
    return f"[{'#' * full}{'-' * (width - 2 - full)}]"


def _whole(share: float, width: int) -> int:
    """Full only when it is, and empty only while there is nothing."""
    if math.isnan(share) or share <= 0:
        return 0
    return width if share >= 1 else min(max(round(share * width), 1), width - 1)


def sparkline(values: Sequence[float], width: int, glyphs: Glyphs = UNICODE) -> str:
    """How `values` went, in `width` cells, the newest at the right; unknown leaves a gap.

    Braille shows two values a cell in five heights; ASCII one value a cell.
    """
    count = width * (2 if glyphs.spark else 1)
    if not values or count <= 0:
        return ""
    missing = [math.nan] * (count - len(values))
    drawn = [*missing, *(values if missing else spread(values, count))]
    top = max((value for value in drawn if value >= 0), default=0.0)
    if glyphs.spark:
        return _braille_row([_quarters(value, top) for value in drawn], 0)
    return "".join(_ASCII_LEVELS[_quarters(v, top)] if v >= 0 else " " for v in drawn)


def _quarters(value: float, top: float) -> int:
    """0 to 4; 1 at least for what is more than nothing."""
    return max(math.ceil(value / top * 4), 1) if value > 0 else 0


def area(
    values: Sequence[float],
    limits: Sequence[float],
    width: int,
    height: int,
    glyphs: Glyphs,
    top: float | None = None,
) -> tuple[list[str], float]:
    """The course of `values` as a filled area under a line of `limits`, and the value of its top.

    None for `top`: the highest of all.

    The oldest stands at the left. Unknown values leave a gap; so do unknown limits in the line.
    Rows come from the top, each of `width` cells.
    """
    known = [value for value in (*values, *limits) if not math.isnan(value)]
    top = max(known, default=0.0) if top is None else top
    if width < 1 or height < 1 or top <= 0:
        return [" " * width] * max(height, 0), 0.0
    columns = width * (2 if glyphs.spark else 1)
    levels = [_level(value, top, height) for value in spread(values, columns)]
    rows = [
        _braille_row(levels, row) if glyphs.spark else _ascii_row(levels, row)
        for row in range(height - 1, -1, -1)
    ]
    return _with_line(rows, spread(limits, width), top, LIMIT_MARKS[glyphs.spark]), top


def spread(values: Sequence[float], count: int) -> list[float]:
    """Exactly `count` of the values: some left out, or some several times; unknown without any."""
    if not values:
        return [math.nan] * count
    last = len(values) - 1
    return [values[round(place * last / max(count - 1, 1))] for place in range(count)]


def _level(value: float, top: float, height: int) -> int:
    """Quarters of a row; one at least for what is more than nothing."""
    if math.isnan(value) or value <= 0:
        return 0
    return max(round(value / top * height * 4), 1)


def _braille_row(levels: Sequence[int], row: int) -> str:
    first = row * 4
    return "".join(
        _CELLS[min(max(left - first, 0), 4) * 5 + min(max(right - first, 0), 4)]
        for left, right in zip(levels[::2], levels[1::2], strict=True)
    )


def _ascii_row(levels: Sequence[int], row: int) -> str:
    return "".join(" .:=#"[min(max(level - row * 4, 0), 4)] for level in levels)


def _with_line(rows: list[str], limits: Sequence[float], top: float, mark: str) -> list[str]:
    """The line over the area: where more is moved than is allowed, it must be seen too."""
    cells = [list(row) for row in rows]
    for place, limit in enumerate(limits):
        if math.isnan(limit):
            continue
        row = min(math.floor((1 - limit / top) * len(rows)), len(rows) - 1)
        cells[row][place] = mark
    return ["".join(row) for row in cells]
