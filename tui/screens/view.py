"""What every view is made of: head, tabs, grid, plot, filter line and keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from backend.errors import BadInput
from tui.actions import (
    DRIFTED,
    FOREIGN,
    IDLE,
    MOVING,
    ORPHANED,
    Action,
    footer_actions,
    screen_bindings,
)
from tui.store import ConnectionState, Query
from tui.tables.base import Order
from tui.tables.small import SmallTable
from tui.views import PARTITIONS
from tui.widgets.grid import Grid
from tui.widgets.keybar import KeyBar
from tui.widgets.plot import PlotPanel
from tui.widgets.status import StatusBar
from tui.widgets.tabs import ViewTabs

if TYPE_CHECKING:
    from backend.domain.steering import ShownDrift
    from tui.app import KshuntApp

MARK_LIMIT = 10_000
"""Kafka takes no more partitions in one call."""


class ViewScreen(Screen[None]):
    """One of the numbered views. Subclasses name themselves and add what only they can do."""

    VIEW: ClassVar[str]
    NOUN: ClassVar[str] = "row"
    HAS_PLOT: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Each view binds what the registry gives it."""
        cls.BINDINGS = cast("list[BindingType]", screen_bindings(cls.VIEW))
        super().__init_subclass__()

    @property
    def kshunt(self) -> KshuntApp:
        """The app, by its own type."""
        from tui.app import KshuntApp

        assert isinstance(self.app, KshuntApp)
        return self.app

    @property
    def grid(self) -> Grid:
        """The view's table."""
        return self.query_one("#grid", Grid)

    @property
    def key_bar(self) -> KeyBar:
        """The last line."""
        return self.query_one(KeyBar)

    def compose(self) -> ComposeResult:
        """Head, tabs, rows, plot, filter, keys."""
        app = self.kshunt
        glyphs = app.glyphs
        yield StatusBar(app.store, address=app.address, read_only=app.read_only, glyphs=glyphs)
        yield ViewTabs(self.VIEW, glyphs=glyphs)
        yield Grid(id="grid", glyphs=glyphs, marks=self.VIEW == PARTITIONS)
        yield from self.compose_below()
        if self.HAS_PLOT:
            yield PlotPanel(glyphs=glyphs)
        yield Input(id="filter", placeholder="topic, broker:3, moving, behind:>1000", compact=True)
        yield KeyBar(read_only=app.read_only, glyphs=glyphs)

    def compose_below(self) -> Iterable[Widget]:
        """What stands below the table."""
        return ()

    def on_mount(self) -> None:
        """Follow the store."""
        line = self.query_one("#filter", Input)
        line.display = False
        line.cursor_blink = False
        self.kshunt.changed.subscribe(self, self._on_changed)
        self.grid.focus()
        self.update_view()

    def on_screen_resume(self) -> None:
        """Show what came while another view was in sight."""
        self.kshunt.derive(self.VIEW)
        self.update_view()

    def on_resize(self, event: events.Resize) -> None:
        """The head has fewer lines where there are few."""
        self.query_one(StatusBar).update_lines()

    def on_key(self, event: events.Key) -> None:
        """A message has been read once the next key is pressed."""
        self.key_bar.say("")

    def _on_changed(self, view: str) -> None:
        if view in ("", self.VIEW) and self.is_current_view:
            self.update_view()

    @property
    def is_current_view(self) -> bool:
        """True while this view is in sight, perhaps below a dialogue."""
        return self.app.current_mode == self.VIEW

    def update_view(self) -> None:
        """Show what the store holds; widgets repaint only what differs."""
        store = self.kshunt.store
        table = store.tables.get(self.VIEW)
        if table is not None and table is not self.grid.table:
            self.grid.show_table(table)
        self.grid.show_message(self._empty_words())
        self.query_one(StatusBar).update_lines()
        self.query_one(ViewTabs).show_note(self._note())
        self.offer_keys()
        if self.HAS_PLOT and store.snapshot is not None:
            self.query_one(PlotPanel).show_history(store.snapshot.history)

    def offer_keys(self) -> None:
        """What the last line offers."""
        self.key_bar.offer(footer_actions(self.VIEW, self.conditions()))

    def conditions(self) -> set[str]:
        """What is so, as far as keys depend on it."""
        store = self.kshunt.store
        moving = store.summary is not None and store.summary.moving_partitions > 0
        found = {MOVING if moving else IDLE}
        found |= {DRIFTED} if store.drift else set()
        found |= {ORPHANED} if store.orphans else set()
        return found | ({FOREIGN} if store.foreign else set())

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

    def _note(self) -> str:
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

    # What can be done, and why not

    def refusal(self, action: Action) -> str:
        """Why an action cannot be done, or empty."""
        if action.changes and self.kshunt.read_only:
            return "Read-only: kshunt was started so; nothing can be changed."
        return ""

    def refused(self, id: str) -> bool:
        """Say why an action cannot be done; True if so."""
        from tui.actions import action_named

        action = action_named(id)
        reason = self.refusal(action) if action is not None else ""
        if reason:
            self.say(reason, "warn")
        return bool(reason)

    def say(self, text: str, tone: str = "") -> None:
        """Say something on the last line until the next key."""
        self.key_bar.say(text, tone)

    @on(Grid.MarksChanged)
    def _marks_changed(self) -> None:
        self.query_one(ViewTabs).show_note(self._note())

    # Actions of every view

    def action_view(self, view: str) -> None:
        """Go to another view; each keeps its place."""
        self.app.switch_mode(view)

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

    def action_quit(self) -> None:
        """Leave."""
        self.app.exit()

    def action_palette(self) -> None:
        """Find an action by its name."""
        self.app.action_command_palette()

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
        self.query_one(ViewTabs).show_note(self._note())
        return query

    # Throttles that are not as they should be

    def chosen_drift(self) -> tuple[ShownDrift, ...]:
        """What has drifted of the row under the cursor."""
        table, key = self.grid.table, self.grid.cursor_key
        row = table.value_of(key) if isinstance(table, SmallTable) and key is not None else None
        drift: tuple[ShownDrift, ...] = getattr(row, "drift", ())
        return drift

    def action_reapply(self) -> None:
        """Put our throttle back: of the row, else everywhere."""
        self._settle("reapply", ours=True)

    def action_accept(self) -> None:
        """Keep what somebody else set: of the row, else everywhere."""
        self._settle("accept", ours=False)

    def _settle(self, id: str, *, ours: bool) -> None:
        """One drift of the row is settled at once; several are asked about first."""
        if self.refused(id):
            return
        chosen = self.chosen_drift()
        drift = chosen or self.kshunt.store.drift
        if drift:
            self.kshunt.flows.settle(drift, ours=ours, ask=len(chosen) != 1)
        else:
            self.say("No throttle of ours was changed by somebody else.")

    def action_adopt(self) -> None:
        """Take over the throttles of moves that somebody else started."""
        if self.refused("adopt"):
            return
        if self.kshunt.store.foreign:
            self.kshunt.flows.adopt()
        else:
            self.say("Nothing throttled moves that no operation here owns.", "warn")

    def action_attention(self) -> None:
        """Everything that is wrong, in full."""
        from tui.attention import attention
        from tui.screens.attention import AttentionScreen

        self.app.push_screen(AttentionScreen(attention(self.kshunt.store)))

    # Left to the modules that know how

    def action_help(self) -> None:
        """Every key of this view."""
        from tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.VIEW))

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

    def action_reassign(self) -> None:
        """Start from a JSON file."""
        if not self.refused("reassign"):
            self.kshunt.flows.reassign()

    def action_cancel_all(self) -> None:
        """Cancel every move."""
        if not self.refused("cancel_all"):
            self.kshunt.flows.cancel(None)

    def action_elect_all(self) -> None:
        """Elect every preferred leader."""
        if not self.refused("elect_all"):
            self.kshunt.flows.elect(None)
