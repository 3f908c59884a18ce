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
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.actions import bind, grid_bindings
from tui.tables.base import GAP, Cell, Column, Placed, RowKey, Table, fit_columns
from tui.text import UNICODE, Glyphs, fit, fit_middle, printable

if TYPE_CHECKING:
    from rich.style import Style

GUTTER = 2
"""Cells at the left for the mark."""

IN_ASCII = str.maketrans("█░", "#-")
"""Bars, where the terminal has no block characters."""

ROWS_KEPT = 512
"""Rows that were drawn and may be wanted again."""

TONES = ("dim", "good", "warn", "bad", "strong")


class Grid(Widget, can_focus=True):
    """A virtual table with a fixed header, a cursor and marks."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--header",
        "grid--cursor",
        "grid--mark",
        *(f"grid--{tone}" for tone in TONES),
    }

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
        bind(self, grid_bindings())
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
        self._laid_out_for = 0
        """The width that the columns were fitted to."""
        self._lines: dict[int, Strip] = {}
        """What each line shows; Textual asks for more of them than it sends."""
        self._rows: dict[tuple[int, bool, bool], Strip] = {}
        """Rows as they were drawn: by place, under the cursor or not, marked or not."""
        self._look: Look | None = None

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
        self._rows.clear()
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
        self._rows.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Colours changed: nothing that was painted holds."""
        super().notify_style_update()
        self._lines.clear()
        self._rows.clear()
        self._look = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region; skips Textual's style cache, as there is no border or padding."""
        if self._laid_out_for != self.size.width:
            # A first paint may come before the widget is told its size.
            self._lay_out()
            self._lines.clear()
            self._rows.clear()
        lines = [self._line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            lines = [line.apply_filter(line_filter, background) for line in lines]
        if crop.x == 0 and crop.width == self.size.width:
            return lines
        return [line.crop(crop.x, crop.right) for line in lines]

    def _line(self, y: int) -> Strip:
        if y not in self._lines:
            self._lines[y] = self._strip(y, self._looks())
        return self._lines[y]

    def _looks(self) -> Look:
        """The styles of this moment; Textual works them out anew each time it is asked."""
        base = self.rich_style
        if self._look is None or self._look.base != base:
            self._look = Look(self, base)
            self._rows.clear()
        return self._look

    def _paint_changes(self) -> None:
        """Ask for the lines whose look is not what is on the screen."""
        before, width, look = self._lines, self.size.width, self._looks()
        self._lines = {y: self._strip(y, look) for y in range(self.size.height)}
        stale = [
            Region(0, y, width, 1)
            for y, line in self._lines.items()
            if (shown := before.get(y)) is not line and shown != line
        ]
        if stale:
            self.refresh(*stale)

    def _lay_out(self) -> None:
        self._laid_out_for = self.size.width
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

    def _strip(self, y: int, look: Look) -> Strip:
        base, width = look.base, self.size.width
        if self._table is None or not len(self._table):
            return self._message_strip(y, base, width)
        if y == 0:
            return self._header_strip(self._table, base, width)
        row = self._top + y - 1
        if row >= len(self._table):
            return Strip.blank(width, base)
        return self._row(self._table, row, look)

    def _row(self, table: Table, row: int, look: Look) -> Strip:
        """A row, drawn once for as long as it stays what it is."""
        at_cursor = row == self._cursor and self.can_focus
        marked = bool(self.marked) and table.key_of(row) in self.marked
        place = (row, at_cursor, marked)
        if place not in self._rows:
            if len(self._rows) > ROWS_KEPT:
                self._rows.clear()
            self._rows[place] = self._row_strip(table, place, look)
        return self._rows[place]

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
        sign = self._sort_sign(table, column)
        need = len(column.label) + len(sign)
        title = column.label if column.label and need <= room else column.title
        return f"{title[: room - len(sign)]}{sign}"

    def _sort_sign(self, table: Table, column: Column) -> str:
        """An arrow on a column that sorts, and which one it is where several do."""
        levels = table.order.levels
        for number, level in enumerate(levels, 1):
            if level.key == column.key:
                arrow = self.glyphs.descending if level.reverse else self.glyphs.ascending
                return f"{arrow}{number}" if len(levels) > 1 else arrow
        return ""

    def _row_strip(self, table: Table, place: tuple[int, bool, bool], look: Look) -> Strip:
        row, at_cursor, marked = place
        # A cursor that is the row in reverse has no place for colours: they would be its ground.
        toned = not (at_cursor and self.app.native_ansi_color)
        gutter = fit(self.glyphs.mark if marked else "", GUTTER)
        plain, segments, used = look.style(at_cursor, ""), [], GUTTER
        text, style = gutter, look.style(at_cursor, "mark" if toned and marked else "")
        for (column, room), cell in zip(self._placed, table.cells(row, self._placed), strict=True):
            own = look.style(at_cursor, cell.tone if toned else "")
            piece = self._fitted(column, cell, room)
            # Neighbours of one style are one segment: fewer to draw, and to compare.
            if own is not style:
                segments.append(Segment(text, style))
                text, style = "", own
            text += piece
            if style is plain:
                text += " " * GAP
            else:
                segments.append(Segment(text, style))
                text, style = " " * GAP, plain
            used += room + GAP
        # The last gap was written plainly, and so is what follows.
        width = self.size.width
        segments.append(Segment(text + " " * (width - used), style))
        return Strip(segments, max(used, width)).crop(0, width)

    def _fitted(self, column: Column, cell: Cell, room: int) -> str:
        text = printable(cell.text)
        if not self.glyphs.spark:
            text = text.translate(IN_ASCII)
        if len(text) <= room and text.isascii():
            return text.rjust(room) if column.right else text.ljust(room)
        if column.names:
            return fit_middle(text, room, self.glyphs)
        return fit(text, room, self.glyphs, right=column.right)


class Look:
    """The styles of a grid's rows, each worked out once."""

    def __init__(self, grid: Grid, base: Style) -> None:
        self.base = base
        self._grid = grid
        self._styles: dict[tuple[bool, str], Style] = {(False, ""): base}

    def style(self, at_cursor: bool, tone: str) -> Style:
        """The style of a cell of this tone; the same object for the same look."""
        wanted = (at_cursor, tone)
        if wanted not in self._styles:
            ground = self.style(at_cursor, "") if tone else self.base
            name = f"grid--{tone}" if tone else "grid--cursor"
            self._styles[wanted] = ground + self._grid.get_component_rich_style(name, partial=True)
        return self._styles[wanted]
