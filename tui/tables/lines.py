"""Lines of a screen that is no table: words with a tone, some of which lead somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from kshunt.backend.domain.text.formatting import many
from kshunt.tui.tables.model import Cell, RowKey
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import fit, fit_middle, printable
from kshunt.tui.text.glyphs import Glyphs


class Line(NamedTuple):
    """One line."""

    spans: tuple[Cell, ...]
    key: RowKey | None = None
    """What stays the same about it through refreshes; None where the cursor passes it over."""
    target: ScreenTarget | None = None
    """Where Enter leads."""

    @property
    def text(self) -> str:
        """Its words alone."""
        return "".join(span.text for span in self.spans)


class PaneLine(NamedTuple):
    """A label, a text, and the tone of the text; an empty label belongs to the one above."""

    label: str
    text: str
    tone: str = ""
    lines: int = 1
    """The most lines of the screen that it may take."""


class LinePart(NamedTuple):
    """A cell of a line that is fitted like a row of a table."""

    cell: Cell
    width: int
    """0 for what is left over."""
    priority: int = 0
    """Parts with the highest number go first where room is short."""
    right: bool = False
    names: bool = False


BLANK = Line(())
ROOM_LEAST = 12
"""Cells that the part which takes what is left over should have."""


def labelled(label: str, lines: Sequence[Line], width: int) -> list[Line]:
    """The lines, each behind `width` cells; those before the first line hold the label."""
    return [
        line._replace(spans=(Cell(fit(label if not place else "", width), "dim"), *line.spans))
        for place, line in enumerate(lines)
    ]


def fitted(parts: Sequence[LinePart], width: int, glyphs: Glyphs) -> tuple[Cell, ...]:
    """The parts in `width` cells, one blank between them; what does not fit is left out."""
    fitting = list(parts)
    while len(fitting) > 1 and _needed(fitting) > width:
        fitting.remove(max(fitting[1:], key=lambda part: part.priority))
    rest = width - sum(part.width + 1 for part in fitting if part.width)
    spans: list[Cell] = []
    for part in fitting:
        room = max(part.width or rest, 1)
        text = printable(part.cell.text)
        if part.names:
            text = fit_middle(text, room, glyphs)
        else:
            text = fit(text, room, glyphs, right=part.right)
        spans += [Cell(" ")] if spans else []
        spans.append(Cell(text, part.cell.tone))
    return tuple(spans)


def _needed(parts: Sequence[LinePart]) -> int:
    return sum((part.width or ROOM_LEAST) + 1 for part in parts) - 1


def clipped(line: Line, width: int, glyphs: Glyphs) -> Line:
    """The line in no more than `width` cells; what is cut is marked as cut."""
    spans, room = [], width
    for text, tone in line.spans:
        length = cell_len(text)
        if length > room:
            spans.append(Cell(fit(text, room, glyphs), tone))
            break
        spans.append(Cell(text, tone))
        room -= length
    return line._replace(spans=tuple(spans))


def wrapped(cells: Sequence[Cell], width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """Cells one after the other, in at most `most` lines; a cell is not broken up.

    Where cells are left out after a comma, a mark takes its place.
    """
    lines: list[list[Cell]] = [[]]
    used = 0
    for text, tone in cells:
        length = cell_len(text)
        if used and used + 1 + length > width:
            if len(lines) == most:
                last = lines[-1][-1]
                cut = last.text.removesuffix(",") + glyphs.ellipsis
                lines[-1][-1] = last._replace(text=cut) if last.text.endswith(",") else last
                break
            lines.append([])
            used = 0
        if used:
            lines[-1].append(Cell(" "))
            used += 1
        lines[-1].append(Cell(fit(text, width, glyphs).rstrip() if length > width else text, tone))
        used += length
    return [Line(tuple(line)) for line in lines]


def padded(cells: Sequence[Cell], width: int, glyphs: Glyphs) -> tuple[Cell, ...]:
    """The cells in exactly `width` cells."""
    spans = clipped(Line(tuple(cells)), width, glyphs).spans
    left = width - sum(cell_len(cell.text) for cell in spans)
    return (*spans, Cell(" " * left)) if left > 0 else spans


def beside(
    left: Sequence[Line], right: Sequence[Line], width: int, gap: int, glyphs: Glyphs
) -> list[Line]:
    """Lines at the right of others, which get `width` cells; the cursor stops at those."""
    rows = max(len(left), len(right))
    lefts = [*left, *[BLANK] * (rows - len(left))]
    rights = [*right, *[BLANK] * (rows - len(right))]
    return [
        one._replace(spans=(*padded(one.spans, width, glyphs), Cell(" " * gap), *other.spans))
        if other.spans
        else one
        for one, other in zip(lefts, rights, strict=True)
    ]


def more_line(count: int, noun: str, how: str = "", nouns: str = "") -> Line:
    """That there is more than is shown: `and 44 more brokers, z shows all`."""
    words = f"and {many(count, f'more {noun}', f'more {nouns}' if nouns else '')}"
    return Line((Cell(f"{words}, {how}" if how else words, "dim"),))
