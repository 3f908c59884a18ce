"""Which columns of a table are shown: each of them by its name, and whether it has room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.dialogs.sort import sort_sign
from kshunt.tui.tables.column_choice import OWN_COLUMNS, ColumnChoice
from kshunt.tui.tables.model import Column, Table
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs

HINT: Final = "Space shows or hides, + first, x default, Enter applies, Esc leaves"
AROUND: Final = 6
"""Lines of the frame, and of the texts below the list."""


class ColumnList(DialogOptionList):
    """A click changes a column, and Enter is for all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.apply", "Apply", show=False)]


class ColumnsScreen(Dialog[ColumnChoice]):
    """Answers with a choice, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("space", "turn", "Show or hide", show=False),
        Binding("plus,a", "put_first", "First", show=False),
        Binding("x", "take_default", "Default", show=False),
        Binding("q", "close", "Close", show=False),
    ]

    def __init__(
        self,
        name: str,
        table: Table,
        choice: ColumnChoice,
        fitting: Callable[[ColumnChoice], frozenset[str]],
        glyphs: Glyphs,
    ) -> None:
        """`fitting` says which columns have room with a choice, by their keys."""
        super().__init__(f"Columns of the {name} table", opened_by="columns")
        self._columns, self._order = table.columns, table.order
        self._choice, self._fitting = choice, fitting
        self._glyphs = glyphs
        self._fit: frozenset[str] = frozenset()
        self._name_cells = max(len(column.name) for column in self._columns)

    def compose_body(self) -> Iterable[Widget]:
        """The columns, what is to be said of the chosen one, the keys."""
        yield ColumnList(compact=True)
        yield Lines("", id="about-column")
        yield Lines(HINT, classes="hint")

    def on_mount(self) -> None:
        """The first one that can be hidden is chosen."""
        free = (place for place, one in enumerate(self._columns) if not one.identifies)
        self._show()
        self._list.highlighted = next(free, 0)
        self._list.focus()

    def on_resize(self) -> None:
        """The list scrolls on a low terminal, and other columns have room."""
        self._list.styles.max_height = max(self.app.size.height - AROUND, 1)
        # The table behind is told its size after this.
        self.call_after_refresh(self._show)

    @property
    def _list(self) -> ColumnList:
        return self.query_one(ColumnList)

    @property
    def _chosen(self) -> Column:
        return self._columns[self._list.highlighted or 0]

    def _show(self) -> None:
        """The choice so far; the cursor stays."""
        place = self._list.highlighted
        self._fit = self._fitting(self._choice)
        self._list.set_options([Option(self._row(column)) for column in self._columns])
        if place is not None:
            self._list.highlighted = place
            self._say()

    def _row(self, column: Column) -> Text:
        """`[x] Size   no room`."""
        first = column.key in self._choice.first
        hidden = self._choice.hides(column)
        sign = " " if hidden else "+" if first and not column.identifies else "x"
        name = printable(column.name).ljust(self._name_cells)
        if column.identifies:
            note = "always shown"
        elif hidden:
            note = ""
        elif column.key not in self._fit:
            note = "no room"
        else:
            note = "first" if first else ""
        notes = [note, sort_sign(column, self._order, self._glyphs).strip()]
        said = ", ".join(filter(None, notes))
        return Text.assemble(f"[{sign}] {name}  ", (said, "dim"), end="")

    def _say(self) -> None:
        """What is to be known of the column under the cursor."""
        column = self._chosen
        if column.identifies:
            said = f"{column.name} says which row it is: it cannot be hidden."
        elif self._choice.hides(column):
            said = "Hidden here. Details, y, E and the filter still have it."
        elif column.key in self._fit:
            said = f"This choice shows {len(self._fit)} of {len(self._columns)} columns."
        elif column.key in self._choice.first:
            said = "The terminal is too narrow for it, though it comes first."
        else:
            said = "The terminal is too narrow for it. + takes the room of others."
        self.query_one("#about-column", Lines).say(said)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        self._say()

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_turn()

    def action_move(self, rows: int) -> None:
        """Move as the arrow keys do."""
        self._list.move(rows)

    def action_turn(self) -> None:
        """Hide the column, or show it."""
        column = self._chosen
        if not column.identifies:
            hidden = self._choice.hides(column)
            turn = self._choice.showing if hidden else self._choice.hiding
            self._change(turn(column.key))

    def action_put_first(self) -> None:
        """Give the column its room before others, or in its usual turn."""
        column = self._chosen
        if not column.identifies:
            first = column.key in self._choice.first
            turn = self._choice.showing if first else self._choice.putting_first
            self._change(turn(column.key))

    def action_take_default(self) -> None:
        """The table's own columns."""
        self._change(OWN_COLUMNS)

    def _change(self, choice: ColumnChoice) -> None:
        self._choice = choice
        self._show()

    def action_apply(self) -> None:
        """Show the columns that are chosen."""
        self.dismiss(self._choice)
