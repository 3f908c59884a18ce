"""By which columns a table is sorted: one alone, or up to three behind each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets.option_list import Option

from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.tables.model import NATURAL, Column, Order
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs


def begins_with_largest(column: Column) -> bool:
    """Numbers are sorted from the largest, words and ids from the first."""
    return column.right and column.key not in ("partition", "broker")


def sort_sign(column: Column, order: Order, glyphs: Glyphs) -> str:
    """An arrow and a place, of a column that sorts; else nothing."""
    for number, level in enumerate(order.levels, 1):
        if level.key == column.key:
            return f" {glyphs.descending if level.reverse else glyphs.ascending}{number}"
    return ""


class SortScreen(Dialog[Order]):
    """Answers with an order, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("plus,a,space", "add", "Add", show=False),
        Binding("minus,x", "take_out", "Take out", show=False),
    ]

    def __init__(
        self,
        columns: Sequence[Column],
        order: Order,
        glyphs: Glyphs,
        hidden: Collection[str] = (),
    ) -> None:
        """`hidden`: keys of columns that are not shown; a table can be sorted by them, too."""
        super().__init__("Sort by")
        self._columns = tuple(column for column in columns if column.sortable)
        self._order = order
        self._glyphs = glyphs
        self._hidden = hidden

    def compose_body(self) -> Iterable[Widget]:
        """Its own order, and the columns; those that sort say as which one."""
        names = ["its own order", *map(self._named, self._columns)]
        yield DialogOptionList(*(Option(Text(printable(name))) for name in names), compact=True)
        yield Lines("Enter this alone, + add as next, - remove, Esc closes", classes="hint")

    def _named(self, column: Column) -> str:
        hidden = " (hidden)" if column.key in self._hidden else ""
        return f"{column.name}{sort_sign(column, self._order, self._glyphs)}{hidden}"

    def on_mount(self) -> None:
        """Begin at the column that sorts first."""
        choices = self.query_one(DialogOptionList)
        keys = ["", *(column.key for column in self._columns)]
        choices.highlighted = keys.index(self._order.key) if self._order.key in keys else 0
        choices.focus()

    def action_move(self, rows: int) -> None:
        """Move as the arrow keys do."""
        self.query_one(DialogOptionList).move(rows)

    @property
    def _chosen(self) -> Column | None:
        """The column under the cursor; None for the table's own order."""
        place = self.query_one(DialogOptionList).highlighted or 0
        return self._columns[place - 1] if place else None

    def action_add(self) -> None:
        """Sort what is alike so far by this column; one that sorts already reverses its order."""
        column = self._chosen
        added = column and self._order.adding(column.key, begins_with_largest(column))
        self.dismiss(added or NATURAL)

    def action_take_out(self) -> None:
        """Sort by this column no more."""
        column = self._chosen
        self.dismiss(self._order.without(column.key) if column else self._order)

    @on(DialogOptionList.OptionSelected)
    def _selected(self) -> None:
        column = self._chosen
        self.dismiss(Order(column.key, begins_with_largest(column)) if column else NATURAL)
