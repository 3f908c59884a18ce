"""Columns to choose from, side by side: what is compared at the left, a choice in each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from kshunt.tui.tables.model import Cell
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

LABEL_CELLS: Final = 14
COLUMN_CELLS: Final = 13
"""Of a column, the gap before it included."""


class Comparison(Widget, can_focus=True):
    """A table whose columns are chosen, not its rows; the chosen one stands in brackets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "choose(-1)", "Column before", show=False),
        Binding("right,l", "choose(1)", "Next column", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "comparison--label",
        "comparison--title",
        "comparison--chosen",
        *(f"comparison--{tone}" for tone in ("dim", "good", "warn", "bad", "strong")),
    }

    class Chosen(Message):
        """Another column is chosen."""

    def __init__(self, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._titles: tuple[str, ...] = ()
        self._rows: tuple[tuple[str, tuple[Cell, ...]], ...] = ()
        self._first = 0
        self.chosen = 0
        """The place of the chosen column."""

    def show(self, titles: Sequence[str], rows: Sequence[tuple[str, tuple[Cell, ...]]]) -> None:
        """Compare something else, a cell for each title in each row."""
        self._titles, self._rows = tuple(titles), tuple(rows)
        self.chosen = min(self.chosen, max(len(titles) - 1, 0))
        self.styles.height = len(rows) + 1
        self.refresh()

    def action_choose(self, columns: int) -> None:
        """Choose another column."""
        place = min(max(self.chosen + columns, 0), max(len(self._titles) - 1, 0))
        if place != self.chosen:
            self.chosen = place
            self.refresh()
            self.post_message(self.Chosen())

    def render(self) -> Text:
        """The columns that fit, the chosen one among them."""
        places = self._in_sight()
        lines = [self._title_line(places)]
        for label, cells in self._rows:
            line = Text(end="")
            line.append(fit(label, LABEL_CELLS, self._glyphs), self._style("label"))
            for place in places:
                line.append_text(self._cell(cells[place], place == self.chosen))
            lines.append(line)
        return Text("\n", no_wrap=True, end="").join(lines)

    def _in_sight(self) -> range:
        room = max((self.size.width - LABEL_CELLS) // COLUMN_CELLS, 1)
        self._first = min(max(self._first, self.chosen - room + 1), self.chosen)
        self._first = max(min(self._first, len(self._titles) - room), 0)
        return range(self._first, min(self._first + room, len(self._titles)))

    def _title_line(self, places: range) -> Text:
        """The titles; `<` and `>` where there are more."""
        before = "<" if places.start else ""
        after = ">" if places.stop < len(self._titles) else ""
        head = Text(end="")
        head.append(fit(f"Throttle {before}", LABEL_CELLS, self._glyphs), self._style("label"))
        for place in places:
            chosen = place == self.chosen
            name = f"[{self._titles[place]}]" if chosen else self._titles[place]
            words = fit(printable(name), COLUMN_CELLS - 1, self._glyphs, right=True)
            head.append(" ")
            head.append(words, self._style("chosen" if chosen else "title"))
        head.append(f" {after}" if after else "")
        return head

    def _cell(self, cell: Cell, chosen: bool) -> Text:
        words = fit(printable(cell.text), COLUMN_CELLS - 1, self._glyphs, right=True)
        tone = cell.tone or ("strong" if chosen else "")
        text = Text(" ")
        text.append(words, self._style(tone) if tone else "")
        return text

    def _style(self, name: str):  # type: ignore[no-untyped-def]
        return self.get_component_rich_style(f"comparison--{name}", partial=True)
