"""Gauges and curves as cells of lines: thin, and brighter the more there is.

What brightness says is said by a length or a height too: without colours nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from kshunt.backend.domain.text.axes import CHANGE_MARKS
from kshunt.tui.tables.model import Cell
from kshunt.tui.text.bars import FULL, LIMIT_MARKS, REST, area, bar
from kshunt.tui.text.glyphs import Glyphs

HEAT: Final = ("heat1", "heat2", "heat3", "heat4", "heat5")
"""Tones from a little to the most."""
_LEVELS: Final = {True: "▁▂▃▅▇", False: ".:-=#"}
"""The same as heights, by whether the terminal has more than ASCII."""


def heat_level(share: float) -> int:
    """0 to 4: where a share of the most belongs among `HEAT`."""
    if math.isnan(share):
        return 0
    return min(max(math.ceil(share * len(HEAT)) - 1, 0), len(HEAT) - 1)


def heat(share: float) -> str:
    """The tone of a share of the most."""
    return HEAT[heat_level(share)]


def heat_cell(share: float, width: int, glyphs: Glyphs) -> Cell:
    """A cell of a heat map: higher and brighter the more there is."""
    return Cell(_LEVELS[glyphs.spark][heat_level(share)] * width, heat(share))


def gauge(share: float, width: int, glyphs: Glyphs, tone: str = "") -> tuple[Cell, ...]:
    """How much of a whole; the rest is dim. Without a tone it is brighter the more there is."""
    drawn = bar(share, width, glyphs)
    if not drawn:
        return ()
    tone = tone or heat(share)
    if not glyphs.spark:
        return (Cell(drawn, tone),)
    full = drawn.count(FULL)
    return (Cell(drawn[:full], tone), Cell(drawn[full:], "heat1"))


def parts_gauge(parts: Sequence[tuple[float, str]], width: int, glyphs: Glyphs) -> tuple[Cell, ...]:
    """Amounts side by side, each in its tone; the last one is drawn as what is to come.

    What there is at all has a cell.
    """
    total = sum(amount for amount, _ in parts)
    present = sum(1 for amount, _ in parts if amount > 0)
    if total <= 0 or width < present:
        return ()
    full, rest = (FULL, REST) if glyphs.spark else ("#", "-")
    cells, used, so_far, seen = [], 0, 0.0, 0
    for number, (amount, tone) in enumerate(parts):
        if amount <= 0:
            continue
        so_far += amount
        seen += 1
        # Those behind it keep a cell each.
        end = min(max(round(so_far / total * width), used + 1), width - (present - seen))
        drawn = rest if number == len(parts) - 1 else full
        cells.append(Cell(drawn * (end - used), tone))
        used = end
    return tuple(cells)


def curve(
    values: Sequence[float], limits: Sequence[float], width: int, height: int, glyphs: Glyphs
) -> tuple[list[tuple[Cell, ...]], float]:
    """An area under a line of limits, brighter towards its top, and the value of the top."""
    rows, top = area(values, limits, width, height, glyphs)
    return [toned(row, 1 - place / height, glyphs) for place, row in enumerate(rows)], top


def toned(row: str, share: float, glyphs: Glyphs) -> tuple[Cell, ...]:
    """A row of an area at this share of its height, limits and marks of changes apart."""
    marks = (LIMIT_MARKS[glyphs.spark], CHANGE_MARKS[glyphs.spark])
    tone = heat(share)
    runs = ((is_mark, "".join(run)) for is_mark, run in groupby(row, lambda char: char in marks))
    return tuple(Cell(text, "dim" if is_mark else tone) for is_mark, text in runs)
