"""A view that is one table: grid, plot, filter line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from backend.errors import BadInput
from tui.screens.view import ViewScreen
from tui.store import ConnectionState, Query
from tui.tables.base import Order
from tui.tables.small import SmallTable
from tui.views import PARTITIONS
from tui.widgets.grid import Grid
from tui.widgets.plot import PlotPanel
from tui.widgets.tabs import ViewTabs

if TYPE_CHECKING:
    from backend.domain.steering import ShownDrift

MARK_LIMIT = 10_000
"""Kafka takes no more partitions in one call."""


class TableScreen(ViewScreen):
    """A grid, what stands below it, and a filter line."""

    NOUN: ClassVar[str] = "row"
    HAS_PLOT: ClassVar[bool] = False

    @property
    def grid(self) -> Grid:
        """The view's table."""
        return self.query_one("#grid", Grid)

    def compose_body(self) -> Iterable[Widget]:
        """Rows, plot, filter."""
        glyphs = self.kshunt.glyphs
        yield Grid(id="grid", glyphs=glyphs, marks=self.VIEW == PARTITIONS)
        yield from self.compose_below()
        if self.HAS_PLOT:
            yield PlotPanel(glyphs=glyphs)
        yield Input(id="filter", placeholder="topic, broker:3, moving, behind:>1000", compact=True)

    def compose_below(self) -> Iterable[Widget]:
        """What stands below the table."""
        return ()

    def on_mount(self) -> None:
        """The table has the focus; the filter line is not there until it is wanted."""
        line = self.query_one("#filter", Input)
        line.display = False
        line.cursor_blink = False
        self.grid.focus()

    def update_view(self) -> None:
        """Show what the store holds; widgets repaint only what differs."""
        store = self.kshunt.store
        table = store.tables.get(self.VIEW)
        if table is not None and table is not self.grid.table:
            self.grid.show_table(table)
        self.grid.show_message(self._empty_words())
        super().update_view()
        if self.HAS_PLOT and store.snapshot is not None:
            self.query_one(PlotPanel).show_history(store.snapshot.history)

    def _empty_words(self) -> str:
        store = self.kshunt.store
        if store.snapshot is None:
            if store.connection.state is ConnectionState.LOST:
                return store.connection.reason
            return f"Waiting for the first snapshot from {self.kshunt.address}"
        query = store.queries[self.VIEW]
        if query.follow:
            return "Nothing moves. f shows every replica again."
        if query.filter_text:
            return f"Nothing matches '{query.filter_text}'. / changes the filter."
        return self.nothing_words()

    def nothing_words(self) -> str:
        """Why the view has no rows though nothing is filtered."""
        return f"The cluster has no {self.NOUN}s."

    def note(self) -> str:
        """What is shown of all rows, and how."""
        store = self.kshunt.store
        table, query = store.tables.get(self.VIEW), store.queries[self.VIEW]
        if table is None:
            return ""
        if store.hints.get(self.VIEW):
            return store.hints[self.VIEW]
        parts = [f"{len(self.grid.marked):,} marked"] if self.grid.marked else []
        limited = query.follow or bool(query.filter_text)
        count = f"{len(table):,} of {table.total:,}" if limited else f"{table.total:,}"
        if query.follow:
            parts.append(count if parts or query.filter_text else f"following {count}")
        elif query.filter_text:
            parts.append(count)
        else:
            parts.append(f"{count} {self.noun(table.total)}")
        matching = f" match '{query.filter_text}'" if query.filter_text else ""
        return ", ".join(parts) + matching

    def noun(self, count: int) -> str:
        """What the rows are called."""
        return self.NOUN if count == 1 else f"{self.NOUN}s"

    def clear_marks(self) -> None:
        """Unmark every row."""
        self.grid.clear_marks()

    @on(Grid.MarksChanged)
    def _marks_changed(self) -> None:
        self.query_one(ViewTabs).show_note(self.note())

    def action_back(self) -> None:
        """Close the filter line; else unmark; else drop the filter."""
        line = self.query_one("#filter", Input)
        if line.display:
            self._close_filter()
        elif self.grid.marked:
            self.grid.clear_marks()
        elif self.kshunt.store.queries[self.VIEW].filter_text:
            self._ask(terms=(), filter_text="")

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
        """Sort by a column: numbers from the largest, words from the first."""
        table = self.grid.table
        column = next((c for c in table.columns if c.key == key), None) if table else None
        reverse = column is not None and column.right and key not in ("partition", "broker")
        self._ask(order=Order(key, reverse))
        name = column.name if column is not None else "its own order"
        self.say(f"Sorted by {name}; S reverses, o chooses.")

    def action_sort_reverse(self) -> None:
        """Sort the other way round."""
        order = self.kshunt.store.queries[self.VIEW].order
        self._ask(order=Order(order.key, not order.reverse))

    def action_plot(self) -> None:
        """Show or hide the plot."""
        self.query_one(PlotPanel).toggle()
        self.update_view()

    def action_details(self) -> None:
        """Everything about the row under the cursor."""
        from tui.screens.details import DetailsScreen

        table, key = self.grid.table, self.grid.cursor_key
        if table is not None and key is not None:
            self.app.push_screen(DetailsScreen(table, key, self.kshunt.glyphs))

    def action_sort_choose(self) -> None:
        """Choose the column to sort by."""
        from tui.screens.choose import ChooseScreen

        table = self.grid.table
        if table is None:
            return
        choices = [(c.key, c.name) for c in table.columns if c.sortable]
        present = self.kshunt.store.queries[self.VIEW].order.key
        screen = ChooseScreen("Sort by", [("", "its own order"), *choices], present)
        self.app.push_screen(screen, lambda key: self.sort_by(key) if key is not None else None)

    # The filter line

    def action_filter(self) -> None:
        """Open the filter line."""
        line = self.query_one("#filter", Input)
        line.value = self.kshunt.store.queries[self.VIEW].filter_text
        line.display = True
        line.focus()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.grid.focus()

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        if self._apply_filter(event.value):
            self._close_filter()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        if self.query_one("#filter", Input).display:
            self._apply_filter(event.value)

    def _apply_filter(self, text: str) -> bool:
        """Filter as it is typed; while it cannot be meant, say so and keep the last one."""
        from tui.tables.filters import parse_filter

        try:
            terms = parse_filter(text)
        except BadInput as error:
            self.say(str(error), "bad")
            return False
        self.say("")
        self._ask(terms=terms, filter_text=text.strip())
        return True

    def _ask(self, **changes: object) -> Query:
        query = self.kshunt.store.ask(self.VIEW, **changes)
        self.kshunt.derive(self.VIEW)
        self.query_one(ViewTabs).show_note(self.note())
        return query

    def chosen_drift(self) -> tuple[ShownDrift, ...]:
        """What has drifted of the row under the cursor."""
        table, key = self.grid.table, self.grid.cursor_key
        row = table.value_of(key) if isinstance(table, SmallTable) and key is not None else None
        drift: tuple[ShownDrift, ...] = getattr(row, "drift", ())
        return drift
