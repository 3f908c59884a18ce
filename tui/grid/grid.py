"""The table of every view: draws only the rows in sight, and never loses the operator's place.

A `Table` may hold 200,000 rows; the grid formats one screenful of them. When a new table arrives
(another snapshot, sort order or filter) the cursor goes where its row's key went. It stays on the
same line of the screen where it can. The grid paints again only the lines whose text changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kshunt.tui.actions import bind, grid_bindings
from kshunt.tui.tables.column_choice import OWN_COLUMNS, ColumnChoice
from kshunt.tui.tables.model import GAP, Cell, Column, Order, Placed, RowKey, Table, fit_columns
from kshunt.tui.text.bars import FULL, REST
from kshunt.tui.text.fitting import fit, fit_middle, printable
from kshunt.tui.text.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from rich.style import Style
    from textual.color import Color
    from textual.filter import LineFilter

GUTTER = 2
"""Cells at the left for the mark."""

RIGHT = 3
"""The right button of the mouse."""

IN_ASCII = str.maketrans(FULL + REST, "#-")
"""Bars, where the terminal has no lines."""

SORT_SIGN = 2
"""Cells next to a title for the arrow of a column that sorts, and its place among several."""
ROWS_CACHED = 512
"""Rows that were drawn and may be wanted again."""

_Row = tuple[tuple[Cell, ...], bool, bool]
"""What makes a row look as it does: what it says, under the cursor or not, marked or not."""

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

    class RowOpened(Message):
        """The mouse chose the row under the cursor twice."""

    class TitleClicked(Message):
        """The mouse chose the title of a column."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    class ColumnsWanted(Message):
        """The right button of the mouse chose the titles."""

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
        self._place: tuple[RowKey | None, int] | None = None
        """Where the operator was in rows that were let go: a key, and its line."""
        self._drawn_from: tuple[RowKey, frozenset[RowKey]] | None = None
        """The row where the mouse went down, and what was marked then."""
        self._cursor = 0
        self._top = 0
        self._cursor_posted: RowKey | None = None
        """The row of which it was said last that it is under the cursor."""
        self._moved = False
        """False while the operator has chosen no place: then the top of the table is shown."""
        self._choice = OWN_COLUMNS
        """What an operator chose of the columns."""
        self._placed: list[Placed] = []
        self._lines: dict[int, Strip] = {}
        """What each line shows; Textual asks for more of them than it sends."""
        self._rows: dict[tuple[int, bool, bool], Strip] = {}
        """Rows of the table: by place, under the cursor or not, marked or not."""
        self._drawn: dict[_Row, Strip] = {}
        """Rows as they were drawn; most of a new table's rows say what they said."""
        self._header: tuple[Order, Strip] | None = None
        """How the table is sorted, and what the first line says then."""
        self._fitted_to: tuple[Sequence[Column], int, dict[str, int]] = ((), 0, {})
        """The columns that were fitted, to which width, and what each needed."""
        self._look: RowStyles | None = None

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

    def choose_columns(self, choice: ColumnChoice) -> None:
        """Show the columns that an operator chose, as far as they fit."""
        if choice != self._choice:
            self._choice = choice
            self._lay_out()
            self._paint_changes()

    def fitting(self, choice: ColumnChoice) -> frozenset[str]:
        """Keys of the columns that another choice would show in this width."""
        columns = choice.of(self._table.columns) if self._table is not None else ()
        placed = fit_columns(columns, self._room, self._needs(columns)) if columns else []
        return frozenset(column.key for column, _ in placed)

    def show_table(
        self, table: Table, *, choice: ColumnChoice | None = None, home: bool = False
    ) -> None:
        """Put another table in the place of this one, with its columns; `home` forgets the
        operator's place."""
        key, line = self._place or (self.cursor_key, self._cursor - self._top)
        self._choice = self._choice if choice is None else choice
        self._table, self._place = table, None
        self._rows.clear()
        if home or not self._moved:
            self._moved = False
            self._cursor = self._top = 0
        else:
            self._follow(table, key, line)
        self._keep_in_sight()
        self._paint_changes()

    def let_go(self) -> None:
        """Hold the rows no longer: they may be many. The place in them is kept by its key, and
        what is on the screen stays until there are rows again."""
        if self._table is not None:
            self._place = self.cursor_key, self._cursor - self._top
            self._table = None
            self._rows.clear()

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
        if self._place is not None:
            return
        count = len(self._table) if self._table is not None else 0
        self._cursor = min(max(row, 0), max(count - 1, 0))
        self._moved = True
        self._keep_in_sight()
        self._paint_changes()

    def hold(self) -> None:
        """Stay on the row under the cursor, also where the cursor was never moved."""
        self._moved = True

    def action_cursor(self, rows: int) -> None:
        """Move the cursor by this number of rows."""
        if self.can_focus:
            self.go_to(self._cursor + rows)
        else:
            self._top += rows
            self._cursor = self._top
            self._keep_in_sight()
            self._paint_changes()

    def action_page(self, pages: float) -> None:
        """Move the cursor and what is in sight by this number of screenfuls."""
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
        """Mark or unmark the row under the cursor, and go to the next."""
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
        """Put the cursor where the mouse points; twice opens the row, and a title sorts.

        The right button chooses columns at the titles.
        """
        if event.y == 0 and event.button == RIGHT:
            self.post_message(self.ColumnsWanted())
        elif event.y == 0 and (column := self._column_at(event.x)) is not None:
            self.post_message(self.TitleClicked(column))
        elif event.y > 0 and self._table is not None and event.chain == 1:
            self.go_to(self._row_at(event.y))
        elif event.y > 0 and event.chain == 2 and self.cursor_key is not None:
            # The row of the first click: a new snapshot may have moved another one there since.
            self.post_message(self.RowOpened())

    def _row_at(self, y: int) -> int:
        return self._top + y - 1

    def _column_at(self, x: int) -> Column | None:
        begins = GUTTER
        for column, room in self._placed:
            if begins <= x < begins + room:
                return column
            begins += room + GAP
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Marks may be drawn from this row on."""
        table, row = self._table, self._row_at(event.y)
        if event.button == 1 and event.y > 0 and self.marks and table is not None:
            known = row < len(table)
            self._drawn_from = (table.key_of(row), frozenset(self.marked)) if known else None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Mark the rows from the one where the button went down to this one."""
        if self._drawn_from is None or self._table is None:
            return
        key, before = self._drawn_from
        first = self._table.row_of(key)
        row = min(max(self._row_at(event.y), 0), len(self._table) - 1)
        if not event.button or first is None:
            self._drawn_from = None
            self.release_mouse()
        elif row != first or self.marked != before:
            self.capture_mouse()
            rows = range(min(first, row), max(first, row) + 1)
            self.go_to(row)
            self.marked = set(before) | {self._table.key_of(one) for one in rows}
            self._marks_changed()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Nothing is drawn any more."""
        if self._drawn_from is not None:
            self._drawn_from = None
            self.release_mouse()

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its container."""
        return container.height

    def on_resize(self) -> None:
        """Fit the columns again, and keep the cursor in sight."""
        self._keep_in_sight()
        self._lay_out()
        self._forget_lines()
        self.refresh()

    def notify_style_update(self) -> None:
        """Colours changed: nothing that was painted holds."""
        super().notify_style_update()
        self._forget_lines()
        self._look = None

    def _forget_lines(self) -> None:
        """Nothing that was drawn can be used again."""
        self._lines.clear()
        self._rows.clear()
        self._drawn.clear()
        self._header = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region; skips Textual's style cache, as there is no border or padding."""
        if self._fitted_to[1] != self.size.width:
            # A first paint may come before the widget is told its size.
            self._lay_out()
            self._forget_lines()
        if not self._is_styled:
            # Textual paints it again once it has its styles.
            return [Strip.blank(crop.width, self.rich_style) for _ in crop.line_range]
        lines = self._lines_of(crop.line_range)
        if crop.x == 0 and crop.width == self.size.width:
            return lines
        return [line.crop(crop.x, crop.right) for line in lines]

    @property
    def _is_styled(self) -> bool:
        """False between the moment at which it is mounted and the one at which it has styles."""
        try:
            self.get_component_styles("grid--header")
        except KeyError:
            return False
        return True

    def _lines_of(self, places: Iterable[int]) -> list[Strip]:
        look = self._looks()
        missing = [y for y in places if y not in self._lines]
        if missing:
            size = self.size
            self._lines.update((y, self._strip(y, size, look)) for y in missing)
        return [self._lines[y] for y in places]

    def _looks(self) -> RowStyles:
        """The styles of this moment; Textual works them out anew each time it is asked."""
        made_for = (self.rich_style, self.background_colors[1], tuple(self.get_line_filters()))
        if self._look is None or self._look.made_for != made_for:
            self._look = RowStyles(self, *made_for)
            self._forget_lines()
        return self._look

    def _paint_changes(self) -> None:
        """Ask for the lines whose look is not what is on the screen."""
        if self._place is not None:
            return
        before, size, look = self._lines, self.size, self._looks()
        self._lines = {y: self._strip(y, size, look) for y in range(size.height)}
        stale = [
            Region(0, y, size.width, 1)
            for y, line in self._lines.items()
            if (shown := before.get(y)) is not line and shown != line
        ]
        if stale:
            self.refresh(*stale)

    def _lay_out(self) -> None:
        """Fit the columns, where they, the width or what they need is not what it was."""
        columns = self._choice.of(self._table.columns) if self._table is not None else ()
        fitted_to = (columns, self.size.width, self._needs(columns))
        if fitted_to == self._fitted_to:
            return
        self._fitted_to = fitted_to
        self._rows.clear()
        self._drawn.clear()
        self._header = None
        if columns:
            self._placed = fit_columns(columns, self._room, fitted_to[2])

    @property
    def _room(self) -> int:
        """Cells next to the mark."""
        return self.size.width - GUTTER

    def _needs(self, columns: Sequence[Column]) -> dict[str, int]:
        """Cells of the longest text that was in sight of each column that grows.

        It never falls while the columns and the width stay: nothing moves to and fro.
        """
        table, (before, width, known) = self._table, self._fitted_to
        if table is None:
            return known
        needs = dict(known) if (before, width) == (columns, self.size.width) else {}
        rows = range(self._top, min(self._top + max(self.page_rows, 1), len(table)))
        for column in columns:
            if not column.grows:
                continue
            longest = table.longest(column.key)
            if not longest:
                placed = [Placed(column, max(column.wide, column.width))]
                texts = (table.cells(row, placed)[0].text for row in rows)
                longest = max((cell_len(text) for text in texts), default=0)
            longest = max(longest, len(column.name) + SORT_SIGN, column.width)
            needs[column.key] = max(longest, needs.get(column.key, 0))
        return needs

    def _keep_in_sight(self) -> None:
        """Keep the cursor within the table, and what is in sight around the cursor."""
        if self._place is not None:
            return
        count = len(self._table) if self._table is not None else 0
        page = max(self.page_rows, 1)
        self._cursor = min(max(self._cursor, 0), max(count - 1, 0))
        around = min(max(self._top, self._cursor - page + 1), self._cursor)
        self._top = min(max(around, 0), max(count - page, 0))
        # Other rows are in sight, and may need more room.
        self._lay_out()
        if self.cursor_key != self._cursor_posted:
            self._cursor_posted = self.cursor_key
            self.post_message(self.CursorMoved())

    def _strip(self, y: int, size: Size, look: RowStyles) -> Strip:
        if self._table is None or not len(self._table):
            return self._message_strip(y, size, look)
        if y == 0:
            return self._header_strip(self._table, size.width, look)
        row = self._top + y - 1
        if row >= len(self._table):
            return Strip.blank(size.width, look.base)
        return self._row(self._table, row, size.width, look)

    def _row(self, table: Table, row: int, width: int, look: RowStyles) -> Strip:
        """A row; drawn once for as long as it says what it says."""
        at_cursor = row == self._cursor and self.can_focus
        marked = bool(self.marked) and table.key_of(row) in self.marked
        place = (row, at_cursor, marked)
        strip = self._rows.get(place)
        if strip is None:
            said = (tuple(table.cells(row, self._placed)), at_cursor, marked)
            strip = self._drawn.get(said)
            if strip is None:
                strip = self._drawn[said] = self._row_strip(said, width, look)
            self._rows[place] = strip
            for cache in (self._rows, self._drawn):
                if len(cache) > ROWS_CACHED:
                    cache.clear()
        return strip

    def _message_strip(self, y: int, size: Size, look: RowStyles) -> Strip:
        if y != min(2, size.height - 1):
            return Strip.blank(size.width, look.base)
        style = look.part("grid--dim")
        words = fit(f"  {self.empty_text}", size.width, self.glyphs)
        return Strip([Segment(words, style)], size.width)

    def _header_strip(self, table: Table, width: int, look: RowStyles) -> Strip:
        if self._header is None or self._header[0] != table.order:
            style = look.part("grid--header")
            titles = " " * GUTTER + (" " * GAP).join(
                fit(self._title(table, column, room), room, self.glyphs, right=column.right)
                for column, room in self._placed
            )
            strip = Strip([Segment(fit(titles, width, self.glyphs), style)], width)
            self._header = (table.order, strip)
        return self._header[1]

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

    def _row_strip(self, said: _Row, width: int, look: RowStyles) -> Strip:
        cells, at_cursor, marked = said
        # A cursor that is the row in reverse has no place for colours: they would be its ground.
        toned = not (at_cursor and self.app.native_ansi_color)
        plain, segments, used = look.style(at_cursor, ""), [], GUTTER
        text = fit(self.glyphs.mark if marked else "", GUTTER)
        style = look.style(at_cursor, "mark" if toned and marked else "")
        for (column, room), (words, tone) in zip(self._placed, cells, strict=True):
            own = look.style(at_cursor, tone if toned else "")
            # Neighbours of one style are one segment: fewer to draw, and to compare.
            if own is not style:
                segments.append(Segment(text, style))
                text, style = "", own
            if len(words) <= room and words.isascii() and words.isprintable():
                text += words.rjust(room) if column.right else words.ljust(room)
            else:
                text += self._fitted(column, words, room)
            if style is plain:
                text += " " * GAP
            else:
                segments.append(Segment(text, style))
                text, style = " " * GAP, plain
            used += room + GAP
        # The last gap was written plainly, and so is what follows. Where there is no room for that
        # gap it is left out; a strip that has to be cropped is made twice.
        text = text + " " * (width - used) if used <= width else text[:-GAP]
        if text:
            segments.append(Segment(text, style))
        return Strip(segments, max(used - GAP, width)).crop(0, width)

    def _fitted(self, column: Column, words: str, room: int) -> str:
        """What does not fit, or is more than ASCII."""
        text = printable(words)
        if not self.glyphs.spark:
            text = text.translate(IN_ASCII)
        if column.names:
            return fit_middle(text, room, self.glyphs)
        return fit(text, room, self.glyphs, right=column.right)


class RowStyles:
    """The styles of a grid's rows, each worked out once.

    Textual's filters (no colours, no dim text) change a style whatever the text is: they are put
    over each style here, not over each segment of each line.
    """

    def __init__(
        self, grid: Grid, base: Style, background: Color, filters: Sequence[LineFilter]
    ) -> None:
        self.made_for = (base, background, filters)
        self._grid = grid
        self._styles: dict[tuple[bool, str], Style] = {}
        self.base = self.style(False, "")
        """Of a row without a tone that is not under the cursor."""

    def style(self, at_cursor: bool, tone: str) -> Style:
        """The style of a cell of this tone; the same object for the same look."""
        wanted = (at_cursor, tone)
        style = self._styles.get(wanted)
        if style is None:
            names = ["grid--cursor"] * at_cursor + [f"grid--{tone}"] * bool(tone)
            style = self._styles[wanted] = self.part(*names)
        return style

    def part(self, *names: str) -> Style:
        """The style of these component classes, one over the other."""
        style, background, filters = self.made_for
        for name in names:
            style += self._grid.get_component_rich_style(name, partial=True)
        segments = [Segment(" ", style)]
        for line_filter in filters:
            segments = line_filter.apply(segments, background)
        return segments[0].style or style
