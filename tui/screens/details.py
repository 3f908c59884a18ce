"""Everything about one row, for terminals that have no room for every column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from tui.screens.dialog import Dialog, Lines, fact_lines
from tui.tables.base import Placed, RowKey, Table
from tui.text import Glyphs

WIDE = 200
"""Every column in its long form."""


class DetailsScreen(Dialog[None]):
    """Label and value of each column, as the row was when it was opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "close", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, table: Table, key: RowKey, glyphs: Glyphs) -> None:
        super().__init__("Details")
        self._facts = details(table, key)

    def compose_body(self) -> Iterable[Widget]:
        """The columns."""
        with VerticalScroll(id="details"):
            yield from fact_lines(self._facts)
        yield Lines("Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one("#details").focus()

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#details").scroll_relative(y=rows, animate=False)


def details(table: Table, key: RowKey) -> list[tuple[str, str]]:
    """Label and value of every column of the row with this key; what is urgent comes first."""
    row = table.row_of(key)
    if row is None:
        return [("", "This row is gone.")]
    placed = [Placed(column, WIDE) for column in table.columns]
    cells = table.cells(row, placed)
    said = [
        (column.name, cell.text.strip() or "-")
        for (column, _), cell in zip(placed, cells, strict=True)
    ]
    return [*table.first(row), *said, *table.more(row)]
