"""The throttles view: every rate and every list, editable in place; whose they are below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.errors import BadInput
from kshunt.tui.actions import PENDING, RATED, key_of
from kshunt.tui.actions.view_names import THROTTLES
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.facts.row_keys import ListRowKey, RateRowKey
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS, OWNED
from kshunt.tui.grid.grid import Grid
from kshunt.tui.grid.pane import Pane
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.views.table_screen import TableScreen

if TYPE_CHECKING:
    from kshunt.backend.domain.throttles.configs import ThrottledRate
    from kshunt.backend.domain.throttles.owners import ShownOrphan
    from kshunt.tui.facts.pending_rates import Pending
    from kshunt.tui.views.throttles.table import ThrottleRow, ThrottleTable

LINES_MOST = 8


class ThrottlesScreen(TableScreen):
    """One row a broker's rates, then one row a topic's lists."""

    VIEW: ClassVar[str] = THROTTLES
    NOUN: ClassVar[str] = "broker or topic"
    MARKS: ClassVar[bool] = True
    AT_TIMES: ClassVar[frozenset[str]] = frozenset({"before"})

    _typing: tuple[int, ...] = ()
    """Brokers whose rate is being typed."""
    _pending_of = ""
    """The cluster that `pending` is for."""

    def compose_below(self) -> Iterable[Widget]:
        """Whose the row is and what is wrong, and a line to type a rate into."""
        yield Pane(glyphs=self.kshunt.glyphs, id="wrong")
        with Horizontal(id="typing", classes="entry"):
            yield Lines("", id="whose", classes="why")
            yield Input(id="rate", placeholder="50MB/s, or leader and follower", compact=True)

    def on_mount(self) -> None:
        """The line is not there until it is wanted."""
        self.query_one("#typing").display = False
        self.query_one("#rate", Input).cursor_blink = False

    def noun(self, count: int) -> str:
        """What the rows are called."""
        return self.NOUN if count == 1 else "brokers and topics"

    def conditions(self) -> set[str]:
        """Whether a rate was typed that is not set yet, too."""
        return super().conditions() | {RATED} | ({PENDING} if self.pending else set())

    @property
    def pending(self) -> Pending:
        """Rates that were typed or stepped to, and not asked for yet."""
        return self.kshunt.store.queries[self.VIEW].pending

    @property
    def table(self) -> ThrottleTable | None:
        """The rows, as they are shown."""
        return cast("ThrottleTable | None", self.grid.table)

    @property
    def chosen(self) -> ThrottleRow | None:
        """The row under the cursor."""
        table, key = self.table, self.grid.cursor_key
        return None if table is None or key is None else table.value_of(key)

    def update_view(self) -> None:
        """The pane follows the table."""
        super().update_view()
        self._drop_what_is_so()
        self._show_pane()

    def _drop_what_is_so(self) -> None:
        """What somebody has set meanwhile, as it is pending, is not pending any more.

        Nor is what was typed for another cluster: there the same numbers are other brokers.
        """
        store = self.kshunt.store
        if self.pending and store.facts is not None:
            if self._pending_of != store.facts.snapshot.cluster_id:
                self.drop_pending()
            else:
                self._pend({})

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self.query(Pane) and self.query("#grid"):
            self._show_pane()

    def _show_pane(self) -> None:
        pane, store = self.query_one("#wrong", Pane), self.kshunt.store
        if (self.app.size.height < 16 and not self.pending) or store.facts is None:
            pane.show("", ())
            return
        from kshunt.tui.facts.foreign_throttles import foreign_throttles_left
        from kshunt.tui.views.throttles.details import (
            about,
            advice_lines,
            foreseen,
            unrecorded_lines,
        )

        seen = self.table.foresight if self.table is not None else None
        if seen is not None:
            title, lines = foreseen(seen)
        else:
            scene = store.scene
            throttles = store.facts.snapshot.throttles if store.foreign else None
            left = foreign_throttles_left(scene.operations, throttles, scene.answer(OWNED))
            advice = advice_lines(self.chosen, store)
            title, lines = about(
                self.chosen,
                scene.answer(DRIFT),
                scene.answer(ORPHANS),
                store.foreign,
                left,
                advice,
            )
            lines = [*unrecorded_lines(store, self.kshunt.playback.unrecorded), *lines]
        more = len(lines) - LINES_MOST
        if more > 0:
            lines = [*lines[: LINES_MOST - 1], PaneLine("", f"and {more + 1} more", "dim")]
        pane.show(title, lines)

    # Rates, edited in place: pending until they are agreed to

    def action_faster(self) -> None:
        """A tenth more."""
        self._step("faster", up=True)

    def action_slower(self) -> None:
        """A tenth less."""
        self._step("slower", up=False)

    def action_band(self) -> None:
        """Confirm a band for the marked brokers, else for the row."""
        if not self.refused("band"):
            self.kshunt.fader.confirm(self._brokers())

    def action_take_back(self) -> None:
        """Restore the rates from before the last change."""
        if not self.refused("take_back"):
            self.kshunt.fader.take_back()

    def action_type_rate(self) -> None:
        """Type a rate for the marked brokers, else for the row."""
        if not self.refused("type_rate"):
            self._type(self._brokers())

    def action_edit_all(self) -> None:
        """Type a rate for every broker."""
        facts = self.kshunt.store.facts
        if not self.refused("edit_all") and facts is not None:
            self._type(sorted(facts.snapshot.brokers))

    def action_mark_all(self) -> None:
        """Mark every broker, or none: only brokers have rates."""
        table = self.table
        keys = [] if table is None else [table.key_of(row) for row in range(len(table))]
        brokers = {key for key in keys if isinstance(key, RateRowKey)}
        if brokers <= self.grid.marked:
            self.grid.clear_marks()
        else:
            self.grid.mark(brokers)

    def _brokers(self) -> tuple[int, ...]:
        """The marked brokers, else the one under the cursor; says so where there is none."""
        marked = sorted(key.broker for key in self.grid.marked if isinstance(key, RateRowKey))
        if marked:
            return tuple(marked)
        key = self.grid.cursor_key
        if isinstance(key, RateRowKey):
            return (key.broker,)
        if key is not None:
            self.say(f"A topic has lists, but no rate; {key_of('edit')} edits its lists.", "warn")
        return ()

    def _step(self, id: str, *, up: bool) -> None:
        from kshunt.tui.facts.pending_rates import stepped

        brokers = () if self.refused(id) else self._brokers()
        if not self.pending and brokers and self.kshunt.fader.step(brokers, up=up):
            return
        rates = {broker: stepped(rate, up=up) for broker, rate in self._set_now(brokers).items()}
        if rates:
            self._pend(rates)
        elif brokers:
            words = f"{key_of('type_rate')} types one."
            self.say(f"There is no rate here to raise or lower; {words}", "warn")

    def _set_now(self, brokers: Sequence[int]) -> dict[int, ThrottledRate]:
        """What is pending of these brokers, else set; without those that have no rate."""
        facts, pending = self.kshunt.store.facts, dict(self.pending)
        present = {} if facts is None else facts.snapshot.throttles.rates
        found = {id: present[id].rate for id in brokers if id in present} | {
            id: pending[id] for id in brokers if id in pending
        }
        return {
            id: rate
            for id, rate in found.items()
            if (rate.leader_bytes_per_s, rate.follower_bytes_per_s) != (None, None)
        }

    def _pend(self, rates: dict[int, ThrottledRate]) -> None:
        """Show what these rates would do; nothing is sent."""
        facts = self.kshunt.store.facts
        if facts is None:
            return
        from kshunt.tui.facts.pending_rates import with_rates

        pending = with_rates(self.pending, rates, facts.snapshot.throttles)
        if pending != self.pending:
            self._pending_of = facts.snapshot.cluster_id
            self._ask(pending=pending)
            self.offer_keys()

    def drop_pending(self) -> None:
        """Forget what was typed."""
        self._ask(pending=())
        self.offer_keys()

    def _type(self, brokers: Sequence[int]) -> None:
        if not brokers:
            return
        from kshunt.tui.facts.pending_rates import some_brokers, typed_back

        self._typing = tuple(brokers)
        rates = set(self._set_now(brokers).values())
        self.query_one("#whose", Lines).say(f" Rate of {some_brokers(brokers)}: ")
        self.query_one("#typing").display = True
        line = self.query_one("#rate", Input)
        line.value = typed_back(rates.pop()) if len(rates) == 1 else ""
        line.focus()

    @on(Input.Submitted, "#rate")
    def _rate_typed(self, event: Input.Submitted) -> None:
        from kshunt.tui.facts.pending_rates import typed_rates

        try:
            rate = typed_rates(event.value)
        except BadInput as error:
            self.say(str(error), "bad")
            return
        self._close_line()
        self._pend(dict.fromkeys(self._typing, rate))

    def _close_line(self) -> None:
        self.query_one("#typing").display = False
        self.grid.focus()

    def action_back(self) -> None:
        """Close the line; else drop what was typed."""
        if self.query_one("#typing").display:
            self._close_line()
        elif self.pending:
            self.drop_pending()
            self.say("Dropped; nothing was changed.")
        else:
            super().action_back()

    def action_details(self) -> None:
        """On to the preview of what was typed; else everything about the row."""
        if not self.pending:
            super().action_details()
        elif not self.refused("edit"):
            self.kshunt.workflows.set_rates(dict(self.pending), done=self.drop_pending)

    # Rates and lists in a dialogue, and what nobody needs

    def action_edit(self) -> None:
        """Edit the row under the cursor."""
        key = self.grid.cursor_key
        if key is None or self.refused("edit"):
            return
        if isinstance(key, RateRowKey):
            self.kshunt.workflows.edit_rates((key.broker,))
        elif isinstance(key, ListRowKey):
            self.kshunt.workflows.edit_lists(key.topic)

    def action_remove_orphans(self) -> None:
        """Take off what no move justifies, of the row, else everywhere."""
        if self.refused("remove_orphans"):
            return
        row = self.chosen
        here: tuple[ShownOrphan, ...] = row.orphans if row is not None else ()
        self._remove(here or self.kshunt.store.scene.answer(ORPHANS))

    def action_remove_all_orphans(self) -> None:
        """Take off everything that no move justifies."""
        if not self.refused("remove_all_orphans"):
            self._remove(self.kshunt.store.scene.answer(ORPHANS), every=True)

    def _remove(self, orphans: tuple[ShownOrphan, ...], *, every: bool = False) -> None:
        if orphans:
            self.kshunt.workflows.remove_orphans(orphans, every=every)
        else:
            self.say("There are no orphan throttles.", "warn")
