"""The brokers view: who sends, who receives, and under which throttle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.widget import Widget

from kshunt.tui.actions import BANDED, key_of
from kshunt.tui.actions.view_names import BROKERS
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.model import NATURAL, Order, RowKey, Table
from kshunt.tui.views.pane_screen import PaneScreen

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.tui.grid.plot_panel import PlotPanel

BANDED_PLOT_MS: Final = 1_000
"""While rates follow the keys, the plot follows each of them."""


class BrokersScreen(PaneScreen):
    """One row a broker; or who feeds whom."""

    VIEW: ClassVar[str] = BROKERS
    NOUN: ClassVar[str] = "broker"
    HAS_PLOT: ClassVar[bool] = True

    _order_of_brokers: Order = NATURAL
    """The sort order from before a matrix was shown."""

    def compose_below(self) -> Iterable[Widget]:
        """What the signs of a matrix mean, and the details of a broker."""
        yield Lines(id="legend", classes="hint")
        yield from super().compose_below()

    # Who feeds whom

    def columns_name(self, table: Table) -> str:
        """A matrix has a column for each broker, and no choice of them."""
        return self.VIEW if table.columns[0].key == "broker" else ""

    def action_matrix(self) -> None:
        """Show who feeds whom, then where partitions are, then the brokers again."""
        from kshunt.tui.views.brokers.matrix import MATRICES

        query = self.kshunt.store.queries[self.VIEW]
        kinds = ["", *MATRICES]
        kind = kinds[(kinds.index(query.group) + 1) % len(kinds)]
        if not query.group:
            self._order_of_brokers = query.order
        self._ask(group=kind, shift=0, order=NATURAL if kind else self._order_of_brokers)
        self.update_view()

    def action_shift(self, columns: int) -> None:
        """Show columns of a matrix that do not fit; without one, the arrows move in the past."""
        query, table = self.kshunt.store.queries[self.VIEW], self.grid.table
        if not query.group and self.kshunt.playback.past:
            self.kshunt.playback.scrub(10 * columns)
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
            keys = f"{key_of('matrix')} shows more, {key_of('back')} goes back"
            return f"Nothing is being copied between brokers. {keys}."
        return super().nothing_words()

    def note_words(self, shown: int, total: int) -> str:
        """Which matrix it is, and how far it is shifted."""
        from kshunt.tui.views.brokers.matrix import FLOWS

        query = self.kshunt.store.queries[self.VIEW]
        if not query.group:
            return ""
        words = "copy matrix" if query.group == FLOWS else "partition by broker"
        return f"{words} +{query.shift}" if query.shift else words

    def update_view(self) -> None:
        """The legend follows the table, too."""
        super().update_view()
        legend, words = self.query_one("#legend", Lines), ""
        if group := self.kshunt.store.queries[self.VIEW].group:
            # It needs a data library, which the first frame is shown without.
            from kshunt.tui.views.brokers.matrix import LEGENDS

            words = LEGENDS.get(group, "")
        legend.display = bool(words)
        if words and legend.plain != f"  {words}":
            legend.say(f"  {words}")

    # While rates follow the keys

    def plot(self, panel: PlotPanel, snapshot: Snapshot) -> None:
        """Within a band of rates, what the moves get under their throttles: the keys bend it."""
        home = self.kshunt.store.home
        if home is None or len(home.history) < 2 or BANDED not in self.conditions():
            super().plot(panel, snapshot)
            return
        history, glyphs = home.history, self.kshunt.glyphs

        def build(width: int, height: int) -> Text:
            from kshunt.tui.views.history.sections import LATEST, draw_history

            return draw_history(history, LATEST, None, glyphs, width, height)

        panel.show(build, history[-1].at_ms, BANDED, every_ms=BANDED_PLOT_MS)

    # Details

    def can_tell(self, key: RowKey) -> bool:
        """A broker, and no row of a matrix."""
        return isinstance(key, int) and not self.kshunt.store.queries[self.VIEW].group

    def title_of(self, key: RowKey) -> str:
        """`Broker 3`."""
        return f"Broker {key}"

    def lines_of(self, key: RowKey) -> list[PaneLine]:
        """Its state, its throttles and its disks."""
        from kshunt.tui.views.brokers.details import about

        store = self.kshunt.store
        assert isinstance(key, int)
        return [] if store.facts is None else about(store.facts, key, store.scene.operations)

    # What can be done

    def action_plan(self) -> None:
        """Make a plan for the broker under the cursor."""
        broker = self.grid.cursor_key
        if not self.refused("plan"):
            self.kshunt.workflows.plan(brokers=(broker,) if isinstance(broker, int) else ())

    def action_edit(self) -> None:
        """Edit the rates of the broker under the cursor."""
        broker = self.grid.cursor_key
        if not self.refused("edit") and isinstance(broker, int):
            self.kshunt.workflows.edit_rates((broker,))

    def action_faster(self) -> None:
        """A tenth more."""
        self._step("faster", up=True)

    def action_slower(self) -> None:
        """A tenth less."""
        self._step("slower", up=False)

    def _step(self, id: str, *, up: bool) -> None:
        """Immediately within a band; else after the usual preview."""
        broker = self.grid.cursor_key
        facts = self.kshunt.store.facts
        if self.refused(id) or not isinstance(broker, int) or facts is None:
            return
        if self.kshunt.fader.step((broker,), up=up):
            return
        from kshunt.tui.facts.pending_rates import stepped

        found = facts.snapshot.throttles.rates.get(broker)
        rate = None if found is None else stepped(found.rate, up=up)
        if rate is None or (rate.leader_bytes_per_s, rate.follower_bytes_per_s) == (None, None):
            self.say(f"There is no rate to step; {key_of('edit')} sets one.", "warn")
        else:
            self.kshunt.workflows.set_rates({broker: rate}, lambda: None)

    def action_band(self) -> None:
        """Confirm a band for the broker under the cursor."""
        broker = self.grid.cursor_key
        if not self.refused("band") and isinstance(broker, int):
            self.kshunt.fader.confirm((broker,))

    def action_take_back(self) -> None:
        """Restore the rates from before the last change."""
        if not self.refused("take_back"):
            self.kshunt.fader.take_back()

    def action_edit_all(self) -> None:
        """Edit the rates of every broker."""
        if not self.refused("edit_all"):
            self.kshunt.workflows.edit_rates(None)
