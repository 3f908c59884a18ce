"""A grid in which one column says what goes and what comes, by signs and by colour."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rich.segment import Segment
from textual.strip import Strip

from kshunt.tui.grid.grid import GUTTER, Grid, RowStyles
from kshunt.tui.tables.model import GAP, Cell
from kshunt.tui.text.glyphs import UNICODE, Glyphs

SIGNED: Final = re.compile(r"(?<!\S)[-+]\d+\*?(?!\S)")
"""A broker that goes or comes."""
_TONES: Final = {"-": "bad", "+": "good"}


class DiffGrid(Grid):
    """See the module's text."""

    def __init__(self, column: str, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        """`column` is the key of the one that has signs."""
        super().__init__(glyphs=glyphs, id=id)
        self._signed = column

    def _row_strip(
        self, said: tuple[tuple[Cell, ...], bool, bool], width: int, look: RowStyles
    ) -> Strip:
        strip = super()._row_strip(said, width, look)
        at_cursor = said[1]
        # A cursor that is the row in reverse has no place for colours: they would be its ground.
        if at_cursor and self.app.native_ansi_color:
            return strip
        return Strip(_joined(self._pieces(strip, look, at_cursor)), strip.cell_length)

    def _pieces(self, strip: Strip, look: RowStyles, at_cursor: bool) -> Iterable[Segment]:
        """The strip, cut where a sign begins and ends."""
        start, end = self._span()
        text = strip.text
        done = 0
        for found in SIGNED.finditer(text, start, min(end, len(text))):
            yield from strip.crop(done, found.start())
            style = look.style(at_cursor, _TONES[found.group()[0]])
            yield Segment(found.group(), style)
            done = found.end()
        yield from strip.crop(done)

    def _span(self) -> tuple[int, int]:
        """Where the signed column begins and ends; names of topics take one cell a character."""
        start = GUTTER
        for column, room in self._placed:
            if column.key == self._signed:
                return start, start + room
            start += room + GAP
        return 0, 0


def _joined(pieces: Iterable[Segment]) -> list[Segment]:
    return [piece for piece in pieces if piece.text]
