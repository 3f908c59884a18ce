"""The throttles view: every rate and every list, editable; what is wrong with them below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.widget import Widget

from tui.screens.table import TableScreen
from tui.views import THROTTLES
from tui.widgets.grid import Grid
from tui.widgets.pane import Pane, PaneLine

if TYPE_CHECKING:
    from backend.domain.steering import ShownOrphan
    from tui.tables.small import SmallTable
    from tui.tables.throttles import ThrottleRow

LINES_MOST = 8


class ThrottlesScreen(TableScreen):
    """One row a broker's rates, then one row a topic's lists."""

    VIEW: ClassVar[str] = THROTTLES
    NOUN: ClassVar[str] = "broker or topic"

    def compose_below(self) -> Iterable[Widget]:
        """What is wrong with the row, or with all of them."""
        yield Pane(glyphs=self.kshunt.glyphs, id="wrong")

    def noun(self, count: int) -> str:
        """What the rows are called."""
        return self.NOUN if count == 1 else "brokers and topics"

    @property
    def chosen(self) -> ThrottleRow | None:
        """The row under the cursor."""
        table, key = self.grid.table, self.grid.cursor_key
        if table is None or key is None:
            return None
        return cast("SmallTable[ThrottleRow]", table).value_of(key)

    def update_view(self) -> None:
        """The pane follows the table."""
        super().update_view()
        self._show_pane()

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self.query(Pane) and self.query("#grid"):
            self._show_pane()

    def _show_pane(self) -> None:
        pane, store = self.query_one("#wrong", Pane), self.kshunt.store
        if self.app.size.height < 16 or store.facts is None:
            pane.show("", ())
            return
        from tui.tables.about_throttles import about

        title, lines = about(self.chosen, store.drift, store.orphans, store.foreign)
        more = len(lines) - LINES_MOST
        if more > 0:
            lines = [*lines[: LINES_MOST - 1], PaneLine("", f"and {more + 1} more", "dim")]
        pane.show(title, lines)

    def action_edit(self) -> None:
        """Edit the row under the cursor."""
        from tui.tables.throttles import ListKey, RateKey

        key = self.grid.cursor_key
        if key is None or self.refused("edit"):
            return
        if isinstance(key, RateKey):
            self.kshunt.flows.edit_rates((key.broker,))
        elif isinstance(key, ListKey):
            self.kshunt.flows.edit_lists(key.topic)

    def action_edit_all(self) -> None:
        """Edit the rates of every broker."""
        if not self.refused("edit_all"):
            self.kshunt.flows.edit_rates(None)

    def action_remove_orphans(self) -> None:
        """Take off what no move justifies, of the row, else everywhere."""
        if self.refused("remove_orphans"):
            return
        row = self.chosen
        here: tuple[ShownOrphan, ...] = row.orphans if row is not None else ()
        self._remove(here or self.kshunt.store.orphans)

    def action_remove_all_orphans(self) -> None:
        """Take off everything that no move justifies."""
        if not self.refused("remove_all_orphans"):
            self._remove(self.kshunt.store.orphans)

    def _remove(self, orphans: tuple[ShownOrphan, ...]) -> None:
        if orphans:
            self.kshunt.flows.remove_orphans(orphans)
        else:
            self.say("There is no orphan throttle: each one that stands is needed.", "warn")
