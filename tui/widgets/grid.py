"""The table of every view: draws only the rows in sight, and never loses the operator's place.

A `Table` may hold 200,000 rows; the grid formats one screenful of them. When a new table arrives
(another snapshot, sort order or filter) the cursor goes where its row's key went, stays on the
same line of the screen where it can, and only lines whose text changed are painted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.actions import grid_bindings
from tui.tables.base import GAP, Cell, Column, Placed, RowKey, Table, fit_columns
from tui.text import UNICODE, Glyphs, fit, fit_middle, printable

if TYPE_CHECKING:
    from rich.style import Style

GUTTER = 2
"""Cells at the left for the mark."""

TONES = ("dim", "good", "warn", "bad", "strong")


class Grid(Widget, can_focus=True):
    """A virtual table with a fixed header, a cursor and marks."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--header",
        "grid--cursor",
        "grid--mark",
        *(f"grid--{tone}" for tone in TONES),
    }

    BINDINGS: ClassVar[list[BindingType]] = [*grid_bindings()]

    class MarksChanged(Message):
        """Rows were marked or unmarked."""

    class CursorMoved(Message):
        """Another row is under the cursor."""

    def __init__(
        self,
        *,
        marks: bool = False,
        cursor: bool = True,
        glyphs: Glyphs = UNICODE,
        id: str | None = None,
    ) -> None:
        """Without a `cursor` it cannot have the focus, and moving only scrolls."""
        super().__init__(id=id)
        self.can_focus = cursor
        self.glyphs = glyphs
        self.marks = marks
        """Whether rows can be marked."""
        self.empty_text = "Waiting for the first snapshot"
        """What is said in place of rows."""
        self.marked: set[RowKey] = set()
        self._table: Table | None = None
        self._cursor = 0
        self._top = 0
        self._told: RowKey | None = None
        """The row of which it was said last that it is under the cursor."""
        self._moved = False
        """False while the operator has chosen no place: then the top of the table is shown."""
        self._placed: list[Placed] = []
        self._lines: dict[int, Strip] = {}
        """What each line shows; Textual asks for more of them than it sends."""

    # What others ask

    @property
    def table(self) -> Table | None:
        """The rows that are shown."""
        return self._table

    @property
    def cursor_row(self) -> int:
        """The cursor's place in the table."""
        return self._cursor

    @property
    def cursor_key(self) -> RowKey | None:
        """The key of the row under the cursor, or None where there is no row."""
        if self._table is None or not len(self._table):
            return None
        return self._table.key_of(self._cursor)

    @property
    def top_row(self) -> int:
        """The first row in sight."""
        return self._top

    @property
    def page_rows(self) -> int:
        """How many rows fit below the header."""
        return max(self.size.height - 1, 0)

    @property
    def shown_columns(self) -> tuple[Column, ...]:
        """The columns that fit."""
        return tuple(column for column, _ in self._placed)

    def show_table(self, table: Table, *, home: bool = False) -> None:
        """Put another table in the place of this one; `home` forgets the operator's place."""
        key, line = self.cursor_key, self._cursor - self._top
        self._table = table
        if home or not self._moved:
            self._moved = False
            self._cursor = self._top = 0
        else:
            self._follow(table, key, line)
        self._lay_out()
        self._settle()
        self._paint_changes()

    def _follow(self, table: Table, key: RowKey | None, line: int) -> None:
        """Go where the cursor's row went, on the line where it was."""
        row = table.row_of(key) if key is not None else None
        if row is None:
            # The row is gone: what stands in its place now is the nearest thing to it.
            row = min(self._cursor, max(len(table) - 1, 0))
        self._cursor = row
        if self._top > 0 or row >= self.page_rows:
            self._top = row - line

    def show_message(self, text: str) -> None:
        """Say why there are no rows."""
        if text != self.empty_text:
            self.empty_text = text
            self._paint_changes()

    def clear_marks(self) -> None:
        """Unmark every row."""
        if self.marked:
            self.marked.clear()
            self._marks_changed()

    def mark(self, keys: Iterable[RowKey]) -> None:
        """Mark these rows too."""
        self.marked.update(keys)
        self._marks_changed()

    def _marks_changed(self) -> None:
        self._paint_changes()
        self.post_message(self.MarksChanged())

    # Moving

    def go_to(self, row: int) -> None:
        """Put the cursor on a row and bring the row into sight."""
        count = len(self._table) if self._table is not None else 0
        self._cursor = min(max(row, 0), max(count - 1, 0))
        self._moved = True
        self._settle()
        self._paint_changes()

    def action_cursor(self, rows: int) -> None:
        """Move the cursor by so many rows."""
        if self.can_focus:
            self.go_to(self._cursor + rows)
        else:
            self._top += rows
            self._cursor = self._top
            self._settle()
            self._paint_changes()

    def action_page(self, pages: float) -> None:
        """Move the cursor and what is in sight by so many screenfuls."""
        rows = round(pages * max(self.page_rows - 1, 1))
        self._top += rows
        self.go_to(self._cursor + rows)

    def action_first(self) -> None:
        """Go to the first row and stay at the top through refreshes."""
        self._top = 0
        self.go_to(0)
        self._moved = False

    def action_last(self) -> None:
        """Go to the last row."""
        self.go_to(len(self._table) - 1 if self._table is not None else 0)

    def action_mark(self) -> None:
        """Mark or unmark the row under the cursor, and go on to the next."""
        key = self.cursor_key
        if key is None or not self.marks:
            return
        self.marked.symmetric_difference_update({key})
        self.go_to(self._cursor + 1)
        self._marks_changed()

    def mark_all(self) -> None:
        """Mark every row that is shown, or unmark all if all are marked."""
        if self._table is None:
            return
        keys = {self._table.key_of(row) for row in range(len(self._table))}
        self.marked = self.marked - keys if keys <= self.marked else self.marked | keys
        self._marks_changed()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll by three rows; the keyboard does all of this too."""
        event.stop()
        self.action_cursor(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll by three rows."""
        event.stop()
        self.action_cursor(-3)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse points."""
        if event.y > 0 and self._table is not None:
            self.go_to(self._top + event.y - 1)

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as it is let be."""
        return container.height

    def on_resize(self) -> None:
        """Fit the columns again, and keep the cursor in sight."""
        self._lay_out()
        self._settle()
        self._lines.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Colours changed: nothing that was painted holds."""
        super().notify_style_update()
        self._lines.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region; skips Textual's style cache, as there is no border or padding."""
        lines = [self._line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            lines = [line.apply_filter(line_filter, background) for line in lines]
        if crop.x == 0 and crop.width == self.size.width:
            return lines
        return [line.crop(crop.x, crop.right) for line in lines]

    def _line(self, y: int) -> Strip:
        if y not in self._lines:
            self._lines[y] = self._strip(y)
        return self._lines[y]

    def _paint_changes(self) -> None:
        """Ask for the lines whose look is not what is on the screen."""
        before, width = self._lines, self.size.width
        self._lines = {y: self._strip(y) for y in range(self.size.height)}
        stale = [Region(0, y, width, 1) for y, line in self._lines.items() if before.get(y) != line]
        if stale:
            self.refresh(*stale)

    def _lay_out(self) -> None:
        if self._table is not None:
            self._placed = fit_columns(self._table.columns, self.size.width - GUTTER)

    def _settle(self) -> None:
        """Keep the cursor within the table, and what is in sight around the cursor."""
        count = len(self._table) if self._table is not None else 0
        page = max(self.page_rows, 1)
        self._cursor = min(max(self._cursor, 0), max(count - 1, 0))
        around = min(max(self._top, self._cursor - page + 1), self._cursor)
        self._top = min(max(around, 0), max(count - page, 0))
        if self.cursor_key != self._told:
            self._told = self.cursor_key
            self.post_message(self.CursorMoved())

    def _strip(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if self._table is None or not len(self._table):
            return self._message_strip(y, base, width)
        if y == 0:
            return self._header_strip(self._table, base, width)
        row = self._top + y - 1
        if row >= len(self._table):
            return Strip.blank(width, base)
        return self._row_strip(self._table, row, base, width)

    def _message_strip(self, y: int, base: Style, width: int) -> Strip:
        if y != min(2, self.size.height - 1):
            return Strip.blank(width, base)
        style = base + self.get_component_rich_style("grid--dim", partial=True)
        return Strip([Segment(fit(f"  {self.empty_text}", width, self.glyphs), style)], width)

    def _header_strip(self, table: Table, base: Style, width: int) -> Strip:
        style = base + self.get_component_rich_style("grid--header", partial=True)
        titles = " " * GUTTER + (" " * GAP).join(
            fit(self._title(table, column, room), room, self.glyphs, right=column.right)
            for column, room in self._placed
        )
        return Strip([Segment(fit(titles, width, self.glyphs), style)], width)

    def _title(self, table: Table, column: Column, room: int) -> str:
        sorted_by = table.order.key == column.key
        need = len(column.label) + (1 if sorted_by else 0)
        title = column.label if column.label and need <= room else column.title
        if not sorted_by:
            return title
        arrow = self.glyphs.descending if table.order.reverse else self.glyphs.ascending
        return f"{title[: room - 1]}{arrow}"

    def _row_strip(self, table: Table, row: int, base: Style, width: int) -> Strip:
        at_cursor = row == self._cursor and self.can_focus
        if at_cursor:
            base += self.get_component_rich_style("grid--cursor", partial=True)
        marked = table.key_of(row) in self.marked
        # A cursor that is the row in reverse has no place for colours: they would be its ground.
        toned = not (at_cursor and self.app.native_ansi_color)
        gutter = fit(self.glyphs.mark if marked else "", GUTTER)
        segments = [Segment(gutter, self._toned(base, "mark" if toned else ""))]
        for (column, room), cell in zip(self._placed, table.cells(row, self._placed), strict=True):
            style = self._toned(base, cell.tone if toned else "")
            segments.append(Segment(self._fitted(column, cell, room), style))
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).adjust_cell_length(width, base).simplify()

    def _fitted(self, column: Column, cell: Cell, room: int) -> str:
        text = printable(cell.text)
        if column.names:
            return fit_middle(text, room, self.glyphs)
        return fit(text, room, self.glyphs, right=column.right)

    def _toned(self, base: Style, tone: str) -> Style:
        if not tone:
            return base
        return base + self.get_component_rich_style(f"grid--{tone}", partial=True)
