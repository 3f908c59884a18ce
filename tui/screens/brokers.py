"""The brokers view: who sends, who receives, and under which throttle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import events, on
from textual.widget import Widget

from tui.screens.dialog import Lines
from tui.screens.table import TableScreen
from tui.tables.base import NATURAL, Order
from tui.views import BROKERS
from tui.widgets.grid import Grid
from tui.widgets.pane import Pane, PaneLine

PANE_HEIGHT_LEAST = 36
"""Lines of the terminal from which on a broker's details stand below the table."""


class BrokersScreen(TableScreen):
    """One row a broker; or who feeds whom."""

    VIEW: ClassVar[str] = BROKERS
    NOUN: ClassVar[str] = "broker"
    HAS_PLOT: ClassVar[bool] = True

    _order_of_brokers: Order = NATURAL
    """The sort order from before a matrix was shown."""
    _pane_open = False

    def compose_below(self) -> Iterable[Widget]:
        """What the signs of a matrix mean, and the details of a broker."""
        yield Lines(id="legend", classes="hint")
        yield Pane(glyphs=self.kshunt.glyphs, id="about")

    # Who feeds whom

    def action_matrix(self) -> None:
        """Flows between brokers, then places of partitions, then the brokers again."""
        from tui.tables.matrix import MATRICES

        query = self.kshunt.store.queries[self.VIEW]
        kinds = ["", *MATRICES]
        kind = kinds[(kinds.index(query.group) + 1) % len(kinds)]
        if not query.group:
            self._order_of_brokers = query.order
        self._ask(group=kind, shift=0, order=NATURAL if kind else self._order_of_brokers)
        self.update_view()

    def action_shift(self, columns: int) -> None:
        """Show columns of a matrix that do not fit."""
        query, table = self.kshunt.store.queries[self.VIEW], self.grid.table
        if not query.group or table is None:
            return
        hidden = len(table.columns) - len(self.grid.shown_columns)
        if columns < 0 or hidden > 0:
            self._ask(shift=max(query.shift + columns, 0))

    def action_back(self) -> None:
        """From a matrix back to the brokers."""
        if self.kshunt.store.queries[self.VIEW].group and not self.filter_is_open:
            self._ask(group="", shift=0, order=self._order_of_brokers)
            self.update_view()
        else:
            super().action_back()

    def nothing_words(self) -> str:
        """A matrix of nothing."""
        if self.kshunt.store.queries[self.VIEW].group:
            return "Nothing is being copied from broker to broker. m goes on, Esc back."
        return super().nothing_words()

    def note_words(self, shown: int, total: int) -> str:
        """Which matrix it is, and how far it is shifted."""
        from tui.tables.matrix import FLOWS

        query = self.kshunt.store.queries[self.VIEW]
        if not query.group:
            return ""
        words = "who feeds whom" if query.group == FLOWS else "partition by broker"
        return f"{words} +{query.shift}" if query.shift else words

    def update_view(self) -> None:
        """The legend and the pane follow the table."""
        super().update_view()
        legend, words = self.query_one("#legend", Lines), ""
        if group := self.kshunt.store.queries[self.VIEW].group:
            # It needs a data library, which the first frame is shown without.
            from tui.tables.matrix import LEGENDS

            words = LEGENDS.get(group, "")
        legend.display = bool(words)
        if words and legend.plain != f"  {words}":
            legend.say(f"  {words}")
        self._show_pane()

    # Details

    def action_details(self) -> None:
        """Below the table where there is room for them."""
        broker = self.grid.cursor_key
        if self.kshunt.store.queries[self.VIEW].group or not isinstance(broker, int):
            super().action_details()
        elif self.app.size.height >= PANE_HEIGHT_LEAST:
            self._pane_open = not self._pane_open
            self._show_pane()
        else:
            self._open_details(broker)

    def _open_details(self, broker: int) -> None:
        from tui.screens.details import DetailsScreen

        def said() -> list[tuple[str, str]]:
            return [(line.label, line.text) for line in self._lines(broker)]

        self.app.push_screen(DetailsScreen(f"Broker {broker}", said))

    def _lines(self, broker: int) -> list[PaneLine]:
        from tui.tables.about_broker import about

        store = self.kshunt.store
        return [] if store.facts is None else about(store.facts, broker, store.operations)

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self.query(Pane) and self.query("#grid"):
            self._show_pane()

    def _show_pane(self) -> None:
        pane, key = self.query_one("#about", Pane), self.grid.cursor_key
        tall = self.app.size.height >= PANE_HEIGHT_LEAST
        lines = self._lines(key) if self._pane_open and tall and isinstance(key, int) else []
        pane.show(f"Broker {key}", lines)

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for the pane, or none any more."""
        super().on_resize(event)
        self.call_after_refresh(self._show_pane)

    # What can be done

    def action_edit(self) -> None:
        """Edit the rates of the broker under the cursor."""
        broker = self.grid.cursor_key
        if not self.refused("edit") and isinstance(broker, int):
            self.kshunt.flows.edit_rates((broker,))

    def action_edit_all(self) -> None:
        """Edit the rates of every broker."""
        if not self.refused("edit_all"):
            self.kshunt.flows.edit_rates(None)
