"""The partitions view: which replica is how far, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.widget import Widget

from backend.domain.cluster import TopicPartition
from tui.configs import TopicConfigs
from tui.screens.table import MARK_LIMIT, TableScreen
from tui.tables.base import Order
from tui.text import plural
from tui.views import PARTITIONS
from tui.widgets.grid import Grid
from tui.widgets.pane import Pane, PaneLine

if TYPE_CHECKING:
    from tui.tables.groups import GroupKey
    from tui.tables.partitions import ReplicaKey

PANE_HEIGHT_LEAST = 36
"""Lines of the terminal from which on the details stand below the table."""
ROWS_LEAST = 8
"""Lines of the table, its header included, that the pane leaves."""


class PartitionsScreen(TableScreen):
    """One row a replica, or one a group of them."""

    VIEW: ClassVar[str] = PARTITIONS
    NOUN: ClassVar[str] = "replica"
    HAS_PLOT: ClassVar[bool] = True
    MARKS: ClassVar[bool] = True

    _order_before = Order()
    """The sort order from before the moves were followed."""
    _pane_open = False
    """Whether the details stand below the table, where there is room."""

    def compose_below(self) -> Iterable[Widget]:
        """The details of the row under the cursor."""
        yield Pane(glyphs=self.kshunt.glyphs, id="about")

    def on_mount(self) -> None:
        """Topics are asked for once somebody looks at them."""
        self._configs = TopicConfigs(
            lambda question: self.kshunt.link.ask(question), self.kshunt.store.now_s
        )
        super().on_mount()

    def clear_marks(self) -> None:
        """Unmark every row, and forget topics: this is another cluster."""
        super().clear_marks()
        self._configs.forget()

    # Groups

    def action_group(self) -> None:
        """By topic, by broker, by operation, and one row a replica again."""
        from tui.tables.groups import GROUPINGS

        kinds = ["", *GROUPINGS]
        present = self.kshunt.store.queries[self.VIEW].group
        kind = kinds[(kinds.index(present) + 1) % len(kinds)]
        self._ask(group=kind, inside=None)
        words = f"Grouped by {kind}; Enter opens one" if kind else "One row a replica"
        self.say(f"{words}, v goes on.")

    def action_back(self) -> None:
        """Close an opened group once nothing else is left to undo."""
        query = self.kshunt.store.queries[self.VIEW]
        if self.filter_is_open or self.grid.marked or query.inside is None:
            super().action_back()
        else:
            self._ask(inside=None)

    def note_words(self, shown: int, total: int) -> str:
        """How many replicas, or how many groups of them."""
        from tui.tables.group_table import GroupTable

        query, table = self.kshunt.store.queries[self.VIEW], self.grid.table
        if isinstance(table, GroupTable):
            return plural(shown, table.kind)
        if query.inside is not None:
            return f"{query.inside}: {shown:,}"
        return ""

    # Details

    def action_details(self) -> None:
        """Open the group, or the details: below the table where there is room for them."""
        from tui.tables.groups import GroupKey

        key = self.grid.cursor_key
        if isinstance(key, GroupKey):
            self._ask(inside=key)
        elif self.app.size.height >= PANE_HEIGHT_LEAST:
            self._pane_open = not self._pane_open
            self._show_pane()
        elif key is not None and self.kshunt.store.facts is not None:
            self._open_details(cast("ReplicaKey", key))

    def _open_details(self, key: ReplicaKey) -> None:
        from tui.screens.details import DetailsScreen

        def said() -> list[tuple[str, str]]:
            return [(line.label, line.text) for line in self._lines(key)]

        self.app.push_screen(DetailsScreen(str(key), said))

    def update_view(self) -> None:
        """The pane follows the table."""
        super().update_view()
        self._show_pane()

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for the pane, or none any more."""
        super().on_resize(event)
        self.call_after_refresh(self._show_pane)

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self.query(Pane) and self.query("#grid"):
            self._show_pane()

    def _show_pane(self) -> None:
        pane, key = self.query_one("#about", Pane), self.grid.cursor_key
        lines = self._lines(cast("ReplicaKey", key)) if self._has_pane(key) else []
        pane.show(str(key), lines[: self.app.size.height // 2 - ROWS_LEAST])

    def _has_pane(self, key: object) -> bool:
        if not self._pane_open or key is None or self.app.size.height < PANE_HEIGHT_LEAST:
            # The first frame is shown before data libraries are loaded.
            return False
        from tui.tables.groups import GroupKey

        return not isinstance(key, GroupKey)

    def _lines(self, key: ReplicaKey) -> list[PaneLine]:
        """What is said of a replica and its partition; asks for what is not known yet."""
        from tui.tables.about_partition import TopicSettings, about

        store = self.kshunt.store
        if store.facts is None:
            return []
        store.lags.look_at(key)
        if self._configs.wants(key.topic):
            self.run_worker(self._fetch(key.topic), group="configs")
        settings = TopicSettings(*self._configs.known(key.topic))
        samples = store.lags.samples(key)
        return about(store.facts, key, samples, settings, store.operations, self.kshunt.glyphs)

    async def _fetch(self, topic: str) -> None:
        await self._configs.fetch(topic)
        self.kshunt.changed.publish("")

    # What is chosen, and what can be done with it

    def action_follow(self) -> None:
        """Only the moving partitions, the furthest behind first; again for all."""
        query = self.kshunt.store.queries[self.VIEW]
        if query.follow:
            self._ask(follow=False, order=self._order_before)
            return
        self._order_before = replace(query.order)
        self._ask(follow=True, order=Order("lag_bytes", reverse=True))

    def chosen_partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the marked rows and groups, or of the row under the cursor."""
        from tui.tables.groups import GroupKey

        keys = [key for key in self.grid.marked or {self.grid.cursor_key} if key is not None]
        groups = [key for key in keys if isinstance(key, GroupKey)]
        replicas = [cast("ReplicaKey", key) for key in keys if not isinstance(key, GroupKey)]
        found = {TopicPartition(key.topic, key.partition) for key in replicas}
        return tuple(sorted(found | self._of_groups(groups)))

    def _of_groups(self, groups: list[GroupKey]) -> set[TopicPartition]:
        store = self.kshunt.store
        if not groups or store.facts is None:
            return set()
        from tui.tables.group_table import partitions_of

        query = store.queries[self.VIEW]
        return partitions_of(store.facts, query.terms, query.follow, groups, store.operations)

    def _chosen_or_refused(self, id: str) -> tuple[TopicPartition, ...] | None:
        """The chosen partitions; None, and said why, where it cannot be done."""
        if self.refused(id):
            return None
        chosen = self.chosen_partitions()
        if len(chosen) > MARK_LIMIT:
            self.say(f"{len(chosen):,} partitions are too many at once; filter first.", "warn")
            return None
        return chosen

    def action_cancel(self) -> None:
        """Cancel the moves of the chosen partitions."""
        chosen = self._chosen_or_refused("cancel")
        if chosen is not None:
            self.kshunt.flows.cancel(chosen)

    def action_elect(self) -> None:
        """Elect the preferred leaders of the chosen partitions."""
        chosen = self._chosen_or_refused("elect")
        if chosen is not None:
            self.kshunt.flows.elect(chosen)

    def action_edit(self) -> None:
        """Edit the throttled replicas of the row's topic."""
        chosen = self._chosen_or_refused("edit")
        if chosen:
            self.kshunt.flows.edit_lists(chosen[0].topic)
