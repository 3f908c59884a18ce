"""A view that is one table: grid, plot, filter line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import BadInput
from kshunt.tui.actions import ACTIONS, action_named, key_of
from kshunt.tui.data.team import selected_words
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.facts.view_query import Query
from kshunt.tui.grid.filter_line import FilterLine
from kshunt.tui.grid.grid import Grid
from kshunt.tui.grid.plot_panel import PlotPanel
from kshunt.tui.grid.tabs import ViewTabs
from kshunt.tui.settings import sort_value
from kshunt.tui.tables.column_choice import OWN_COLUMNS, ColumnChoice
from kshunt.tui.tables.list_table import ListTable
from kshunt.tui.tables.model import Order, RowKey, Table
from kshunt.tui.text.fitting import join_fitting
from kshunt.tui.views.view_screen import ViewScreen

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import HistoryPoint, Snapshot
    from kshunt.backend.domain.throttles.owners import ShownDrift
    from kshunt.tui.views.filter_hints import Hint

MARK_LIMIT = 10_000
"""Kafka takes no more partitions in one call."""
LET_GO_S = 60.0
"""A view that is out of sight for longer holds no rows: they would keep an old snapshot."""
PLOT_SPAN_S = 900.0
"""At least so much of the past is plotted, in seconds."""
NARROW = 80
NOTE_SHORT = 18
"""Cells next to the short titles of the views, at 80 columns."""


_ON_ROWS = {"details", *(action.id for action in ACTIONS if action.changes)}
"""Actions that mean the row under the cursor."""


class TableScreen(ViewScreen):
    """A grid, what stands below it, and a filter line."""

    NOUN: ClassVar[str] = "row"
    HAS_PLOT: ClassVar[bool] = False
    MARKS: ClassVar[bool] = False
    """Whether the operator can mark rows, to change several at the same time."""

    OPENS: ClassVar[str] = "details"
    """What a double click does: the action of Enter."""
    FILTERS_WORDS: ClassVar[bool] = True
    """Whether words narrow the rows; False where a filter has fields."""

    AT_TIMES: ClassVar[frozenset[str]] = frozenset()
    """Keys of columns that the table has only where there is something in them."""

    _seen_s = 0.0
    """When it was last in sight."""

    def __init__(self) -> None:
        super().__init__()
        self._columns_checked: set[str] = set()
        """The tables of which it was said what is wrong with the choice of their columns."""

    @property
    def grid(self) -> Grid:
        """The view's table."""
        return self.query_one("#grid", Grid)

    def compose_body(self) -> Iterable[Widget]:
        """Rows, plot, filter."""
        glyphs = self.kshunt.glyphs
        yield Grid(id="grid", glyphs=glyphs, marks=self.MARKS)
        yield from self.compose_below()
        if self.HAS_PLOT:
            yield PlotPanel(glyphs=glyphs)
        yield FilterLine(id="filter", fields=not self.FILTERS_WORDS)
        yield Lines(id="filter-hint", classes="hint")

    def compose_below(self) -> Iterable[Widget]:
        """What stands below the table."""
        return ()

    def on_mount(self) -> None:
        """The table has the focus; the filter line is not there until it is wanted."""
        self._show_filter(False)
        self.grid.focus()

    def _on_changed(self, view: str) -> None:
        super()._on_changed(view)
        now_s = self.kshunt.live_scene.now_s()
        if self.is_current_view:
            self._seen_s = now_s
        elif now_s - self._seen_s > LET_GO_S:
            self.grid.let_go()
            self.kshunt.store.tables.pop(self.VIEW, None)

    def update_view(self) -> None:
        """Show what the store holds; widgets repaint only what differs."""
        store = self.kshunt.store
        table = store.tables.get(self.VIEW)
        if table is not None:
            choice = store.columns.get(self.columns_name(table), OWN_COLUMNS)
            if table is not self.grid.table:
                self._say_unknown_columns(table)
                self.grid.show_table(table, choice=choice)
            self.grid.choose_columns(choice)
        self.grid.show_message(self._empty_words())
        super().update_view()
        if self.HAS_PLOT and store.scene.snapshot is not None:
            self.plot(self.query_one(PlotPanel), store.scene.snapshot)

    def plot(self, panel: PlotPanel, snapshot: Snapshot) -> None:
        """Draw what stands below the table."""
        panel.show_history(self._history_of(snapshot), self.plot_every_ms)

    def _history_of(self, snapshot: Snapshot) -> Sequence[HistoryPoint]:
        """The course of what runs; else of the last minutes."""
        from kshunt.tui.facts.transfer_history import running_s

        running = running_s(self.kshunt.store.scene.operations, snapshot.taken_ms)
        since_ms = snapshot.taken_ms - 1000 * max(running, PLOT_SPAN_S)
        return [point for point in snapshot.history if point.at_ms >= since_ms]

    def _say_unknown_columns(self, table: Table) -> None:
        """Say which columns of the settings the table does not have, once."""
        first = self.grid.table is None
        said = [*(self._drop_unknown_order(table) if first else ()), *self._wrong_columns(table)]
        if said:
            self.say(" ".join(said), "warn")

    def _drop_unknown_order(self, table: Table) -> list[str]:
        """Sort only by columns that the first table has."""
        order = self.kshunt.store.queries[self.VIEW].order
        known = {column.key for column in table.columns if column.sortable}
        unknown = [level.key for level in order.levels if level.key not in known]
        if not unknown:
            return []
        self._ask(order=Order.of([level for level in order.levels if level.key in known]))
        words = ", ".join(unknown)
        return [f"The settings sort {self.VIEW} by {words}: there is no such column."]

    def _wrong_columns(self, table: Table) -> list[str]:
        """What the settings choose of the columns that cannot be."""
        name = self.columns_name(table)
        if name in self._columns_checked:
            return []
        self._columns_checked.add(name)
        choice = self.kshunt.store.columns.get(name, OWN_COLUMNS)
        known = {column.key: column for column in table.columns}
        unknown = [key for key in choice.keys if key not in known and key not in self.AT_TIMES]
        kept = [key for key in choice.hidden if key in known and known[key].identifies]
        said = []
        if unknown:
            words = ", ".join(unknown)
            said.append(f"The settings choose {words} in {name}: there is no such column.")
        if kept:
            words = ", ".join(kept)
            said.append(f"The settings hide {words} in {name}: it says which row it is, and stays.")
        return said

    def _empty_words(self) -> str:
        store, scene = self.kshunt.store, self.kshunt.store.scene
        if scene.snapshot is None:
            if scene.lost:
                return scene.connection.reason
            return f"Waiting for the first snapshot from {self.kshunt.address}"
        if self.VIEW not in store.tables:
            return "Wait a moment."
        query = store.queries[self.VIEW]
        if query.follow and not query.filter_text:
            return f"Nothing moves or ails. {key_of('follow')} shows every replica again."
        if query.follow:
            keys = f"{key_of('follow')} shows all, {key_of('filter')} filters."
            return f"Nothing that moves or ails matches '{query.filter_text}': {keys}"
        if query.filter_text:
            return f"Nothing matches '{query.filter_text}'. {key_of('filter')} changes the filter."
        return self.nothing_words()

    def nothing_words(self) -> str:
        """Why the view has no rows though nothing is filtered."""
        return f"The cluster has no {self.NOUN}s."

    @property
    def looked_at(self) -> str:
        """The row under the cursor."""
        return selected_words(self.grid.cursor_key) if self.query("#grid") else ""

    def show_row(self, key: RowKey) -> None:
        """The cursor goes to a row, or it is said that there is none of this key."""
        self.update_view()
        table = self.grid.table
        row = table.row_of(key) if table is not None else None
        if row is None:
            self.say("It no longer exists.", "warn")
        else:
            self.grid.go_to(row)

    def note(self) -> str:
        """What is shown of all rows, and how."""
        store = self.kshunt.store
        table, query = store.tables.get(self.VIEW), store.queries[self.VIEW]
        if table is None:
            return ""
        if store.hints.get(self.VIEW) and not query.filter_text:
            return store.hints[self.VIEW]
        parts = [f"{len(self.grid.marked):,} marked"] if self.grid.marked else []
        matching = f": {query.filter_text}" if query.filter_text else ""
        special = self.note_words(len(table), table.total)
        if special:
            return ", ".join([*parts, special]) + matching
        limited = query.follow or bool(query.filter_text)
        count = f"{len(table):,} of {table.total:,}" if limited else f"{table.total:,}"
        if query.follow:
            parts.append(self._following_words(len(table), count, bare=not parts and not matching))
        elif query.filter_text:
            parts.append(count)
        else:
            parts.append(f"{count} {self.noun(table.total)}")
        return ", ".join(parts) + matching

    def _following_words(self, shown: int, count: str, *, bare: bool) -> str:
        """That only some rows are shown, and the key that shows all where there is room."""
        room = NOTE_SHORT + max(self.app.size.width - NARROW, 0)
        if not bare:
            return count if len(count) <= room else f"following {shown:,}"
        forms = (f"following {count}, {key_of('follow')} shows all", f"following {count}")
        return next((form for form in forms if len(form) <= room), f"following {shown:,}")

    def note_words(self, shown: int, total: int) -> str:
        """What is said in place of the number of rows; empty for that number."""
        return ""

    def noun(self, count: int) -> str:
        """What the rows are called."""
        return self.NOUN if count == 1 else f"{self.NOUN}s"

    def hold_row(self) -> None:
        """The cursor stays on its row."""
        self.grid.hold()

    def clear_marks(self) -> None:
        """Unmark every row."""
        self.grid.clear_marks()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is done to the row under the cursor waits until the cursor is where it is sent."""
        if self.kshunt.underway and action in _ON_ROWS:
            self.say("Wait a moment: the cursor moves to the row.")
            return False
        return super().check_action(action, parameters)

    def doer_of(self, action: str) -> Widget:
        """The table does what moves in it, and marks."""
        found = action_named(action)
        return self.grid if found is not None and found.where == "grid" else self

    @on(Grid.RowOpened)
    async def _row_opened(self) -> None:
        await self.run_action(self.OPENS)

    @on(Grid.TitleClicked)
    def _title_clicked(self, event: Grid.TitleClicked) -> None:
        """Sort by the column; the other way round where it sorts already."""
        column = event.column
        if not column.sortable:
            self.say(f"The table cannot be sorted by {column.name}.", "warn")
        elif self.kshunt.store.queries[self.VIEW].order.key == column.key:
            self.action_sort_reverse()
        else:
            self.sort_by(column.key)

    @on(Grid.MarksChanged)
    def _marks_changed(self) -> None:
        self.query_one(ViewTabs).show_note(self.note())

    def action_back(self) -> None:
        """Close the filter line; else unmark; else return; else drop the filter."""
        from kshunt.tui.shell.navigation import back

        query = self.kshunt.store.queries[self.VIEW]
        if self.filter_is_open:
            self._close_filter()
        elif self.grid.marked:
            self.grid.clear_marks()
        elif not back(self.kshunt, self.VIEW) and query.filter_text:
            self._ask(terms=(), filter_text="")

    @property
    def filter_is_open(self) -> bool:
        """True while the filter line is there."""
        return self.query_one("#filter", FilterLine).display

    def action_mark_all(self) -> None:
        """Mark every row that is shown."""
        table = self.grid.table
        if table is not None and len(table) > MARK_LIMIT:
            self.say(f"{len(table):,} rows are too many to mark; filter first.", "warn")
            return
        self.grid.mark_all()

    def action_sort_next(self) -> None:
        """Sort by the next column that is in sight."""
        shown = [column.key for column in self.grid.shown_columns if column.sortable]
        if not shown:
            return
        order = self.kshunt.store.queries[self.VIEW].order
        place = shown.index(order.key) + 1 if order.key in shown else 0
        key = shown[place] if place < len(shown) else ""
        self.sort_by(key)

    def sort_by(self, key: str) -> None:
        """Sort by a column alone: numbers from the largest, words from the first."""
        from kshunt.tui.dialogs.sort import begins_with_largest

        table = self.grid.table
        column = next((c for c in table.columns if c.key == key), None) if table else None
        self.sort_in(Order(key, column is not None and begins_with_largest(column)))

    def sort_in(self, order: Order) -> None:
        """Sort by one column or several."""
        self._ask_order(order)
        table = self.grid.table
        names = {c.key: c.name for c in table.columns} if table is not None else {}
        said = ", then ".join(names.get(level.key, level.key) for level in order.levels)
        keys = f"{key_of('sort_reverse')} reverses, {key_of('sort_choose')} chooses and adds"
        self.say(f"Sorted by {said or 'its own order'}; {keys}.")

    def action_sort_reverse(self) -> None:
        """Sort the other way round."""
        order = self.kshunt.store.queries[self.VIEW].order
        self._ask_order(Order(order.key, not order.reverse, order.then))

    def _ask_order(self, order: Order) -> None:
        """Another order; the next dashboard begins with it, unless it is one of groups."""
        self._ask(order=order)
        if not self.kshunt.store.queries[self.VIEW].group:
            self.kshunt.keep_setting(f"sort.{self.VIEW}", sort_value(order) or None)

    def action_plot(self) -> None:
        """Show or hide the plot."""
        self.query_one(PlotPanel).toggle()
        self.update_view()

    def action_details(self) -> None:
        """Everything about the row under the cursor, as long as it is looked at."""
        from kshunt.tui.dialogs.row_details import RowDetailsScreen, details

        key = self.grid.cursor_key
        if self.grid.table is None or key is None:
            return

        def said() -> list[tuple[str, str]]:
            table = self.kshunt.store.tables[self.VIEW]
            return details(table, key)

        self.app.push_screen(RowDetailsScreen("Details", said, self.action_fix))

    def action_copy_row(self) -> None:
        """The row under the cursor, as one line, to the clipboard of the terminal."""
        from kshunt.tui.tables.row_texts import row_line

        table, key = self.grid.table, self.grid.cursor_key
        row = table.row_of(key) if table is not None and key is not None else None
        if table is None or row is None:
            self.say("There is no row to copy.", "warn")
            return
        line = row_line(table, row)
        self.app.copy_to_clipboard(line)
        self.say(f"Copied, if your terminal takes it (OSC 52): {line}")

    @property
    def exported_table(self) -> Table | None:
        """Every row that is not filtered out."""
        return self.grid.table

    def action_sort_choose(self) -> None:
        """Choose the columns to sort by."""
        from kshunt.tui.dialogs.sort import SortScreen

        table = self.grid.table
        if table is None:
            return
        order = self.kshunt.store.queries[self.VIEW].order
        choice = self.kshunt.store.columns.get(self.columns_name(table), OWN_COLUMNS)
        hidden = [column.key for column in table.columns if choice.hides(column)]
        screen = SortScreen(table.columns, order, self.kshunt.glyphs, hidden)
        self.app.push_screen(screen, lambda one: self.sort_in(one) if one is not None else None)

    # Columns

    def columns_name(self, table: Table) -> str:
        """The name by which a choice of the table's columns is kept; empty: there is no choice."""
        return self.VIEW

    @on(Grid.ColumnsWanted)
    async def _columns_wanted(self) -> None:
        await self.run_action("columns")

    def action_columns(self) -> None:
        """Choose the columns that are shown."""
        from kshunt.tui.dialogs.columns import ColumnsScreen

        table, grid = self.grid.table, self.grid
        if table is None:
            self.say("There are no columns yet.")
            return
        name = self.columns_name(table)
        if not name:
            keys = f"{key_of('shift(-1)')} {key_of('shift(1)')}"
            self.say(f"The columns of this table cannot be chosen; {keys} shift them.")
            return
        choice = self.kshunt.store.columns.get(name, OWN_COLUMNS)
        screen = ColumnsScreen(name, table, choice, grid.fitting, self.kshunt.glyphs)
        self.app.push_screen(
            screen, lambda one: None if one is None else self._show_columns(name, table, one)
        )

    def _show_columns(self, name: str, table: Table, choice: ColumnChoice) -> None:
        """Show these columns; the next dashboard begins with them."""
        self.kshunt.store.columns[name] = choice
        self.update_view()
        self.kshunt.keep_setting(f"columns.{name}", choice.words or None)
        hidden = [column for column in table.columns if choice.hides(column)]
        first = [column for column in table.columns if column.key in choice.first]
        counts = ((first, "first"), (hidden, "hidden"))
        parts = [f"{many(len(found), 'column')} {word}" for found, word in counts if found]
        said = ", ".join(parts) or "The table has its own columns"
        sorting = {level.key for level in table.order.levels}
        if unseen := [column.name for column in hidden if column.key in sorting]:
            said += f"; the table is still sorted by {', '.join(unseen)}"
        self.say(f"{said}. {key_of('columns')} chooses.")

    # The filter line

    def action_filter(self) -> None:
        """Open the filter line."""
        line = self.query_one("#filter", FilterLine)
        line.put(self.kshunt.store.queries[self.VIEW].filter_text)
        self._show_filter(True)
        line.focus()
        self._show_hint(line.value)

    def _show_filter(self, shown: bool) -> None:
        self.query_one("#filter", FilterLine).display = shown
        self.query_one("#filter-hint", Lines).display = shown

    def _close_filter(self) -> None:
        self._show_filter(False)
        self.grid.focus()

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        if self._apply_filter(event.value):
            self._close_filter()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        if self.filter_is_open:
            self._apply_filter(event.value)
            self._show_hint(event.value)

    @on(FilterLine.CompletionWanted)
    def _complete(self) -> None:
        from kshunt.tui.views.filter_hints import completed

        line = self.query_one("#filter", FilterLine)
        line.put(completed(line.value, self._hint(line.value)))

    def _hint(self, text: str) -> Hint:
        from kshunt.tui.views.filter_hints import WORDS_HINT, hint_for

        if self.FILTERS_WORDS:
            return WORDS_HINT
        store = self.kshunt.store
        topics = store.scene.snapshot.topics if store.scene.snapshot is not None else ()
        running = [one.id for one in store.scene.operations if not one.state.ended]
        return hint_for(text, running, topics)

    def _show_hint(self, text: str) -> None:
        """What fits the word that is being typed, as much of it as the line takes."""
        width = max(self.app.size.width - 1, 1)
        parts = self._hint(text).words.split("  ")
        words = join_fitting(parts, width, "  ") or parts[0][:width]
        self.query_one("#filter-hint", Lines).say(f" {words}")

    def _apply_filter(self, text: str) -> bool:
        """Filter as it is typed; while it cannot be meant, say so and keep the last one."""
        from kshunt.tui.facts.filter_terms import parse_filter

        try:
            terms = () if self.FILTERS_WORDS else parse_filter(text)
        except BadInput as error:
            self.say(str(error), "bad")
            return False
        self.say("")
        self._ask(terms=terms, filter_text=text.strip())
        return True

    def _ask(self, **changes: object) -> Query:
        query = self.kshunt.store.ask(self.VIEW, **changes)
        self.kshunt.compute_table(self.VIEW)
        self.query_one(ViewTabs).show_note(self.note())
        return query

    def chosen_drift(self) -> tuple[ShownDrift, ...]:
        """What has drifted of the row under the cursor."""
        table, key = self.grid.table, self.grid.cursor_key
        row = table.value_of(key) if isinstance(table, ListTable) and key is not None else None
        drift: tuple[ShownDrift, ...] = getattr(row, "drift", ())
        return drift
