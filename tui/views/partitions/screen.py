"""The partitions view: which replica is how far, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import many
from kshunt.tui.actions import FOLLOWING, OPENED, key_of
from kshunt.tui.actions.view_names import GROUPS, PARTITIONS
from kshunt.tui.facts.view_query import Query
from kshunt.tui.feed.polled_facts import PIPELINE
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.model import NATURAL, Order, RowKey, Table
from kshunt.tui.views.partition_verbs import PartitionVerbsScreen
from kshunt.tui.views.partitions.replica_stalls import ReplicaStalls

if TYPE_CHECKING:
    from kshunt.backend.domain.pipeline.delivered import Rows, StallRow
    from kshunt.backend.domain.replicas.stuck_causes import Stuck
    from kshunt.tui.facts.replica_groups import GroupKey
    from kshunt.tui.facts.row_keys import ReplicaKey
    from kshunt.tui.views.stuck_fixes import Fix

STALLS = "stalls"
"""The table of the data pipeline's results."""
ROWS_LEAST = 8
"""Lines of the table, its header included, that the pane leaves."""


class PartitionsScreen(PartitionVerbsScreen):
    """One row a replica, or one a group of them."""

    VIEW: ClassVar[str] = PARTITIONS
    NOUN: ClassVar[str] = "replica"
    HAS_PLOT: ClassVar[bool] = True
    MARKS: ClassVar[bool] = True
    AT_TIMES: ClassVar[frozenset[str]] = frozenset({"mode"})

    _opens = True
    """Whether the view chooses what it shows: until the operator does."""
    _arrived = False
    """True once somebody came here, until it was chosen."""
    _order_before = Order()
    """The sort order from before the moves were followed."""

    def __init__(self) -> None:
        super().__init__()
        # The store may have something to show before the screen is mounted.
        self._stalls = ReplicaStalls(
            lambda question: self.kshunt.link.ask(question), lambda: self.kshunt.store.now_s()
        )

    def clear_marks(self) -> None:
        """Unmark every row, and forget stalls: this is another cluster."""
        super().clear_marks()
        self._stalls.forget()

    # Groups

    def columns_name(self, table: Table) -> str:
        """Groups have columns of their own."""
        return GROUPS if table.columns[0].key == "group" else self.VIEW

    def action_group(self) -> None:
        """By topic, by broker, by operation, and one row a replica again."""
        from kshunt.tui.facts.replica_groups import GROUPINGS

        kinds = ["", *GROUPINGS]
        present = self.kshunt.store.queries[self.VIEW].group
        kind = kinds[(kinds.index(present) + 1) % len(kinds)]
        self._ask(group=kind, inside=None, opened_from=None)
        words = f"Grouped by {kind}; Enter opens one" if kind else "One row a replica"
        self.say(f"{words}, {key_of('group')} changes it.")

    def action_back(self) -> None:
        """Close an opened group once nothing else is left to undo; one of another view, there."""
        query = self.kshunt.store.queries[self.VIEW]
        narrowed = self.filter_is_open or self.grid.marked or query.inside is None
        opened_from = query.opened_from
        if narrowed or (opened_from is not None and query.filter_text):
            super().action_back()
        elif opened_from is not None:
            self.kshunt.store.queries[self.VIEW] = opened_from.before
            self.app.switch_mode(opened_from.view)
        else:
            self._ask(inside=None)

    def nothing_words(self) -> str:
        """That the group that is opened has gone."""
        inside = self.kshunt.store.queries[self.VIEW].inside
        if inside is None:
            return super().nothing_words()
        return f"There are no replicas of {inside} any more. {key_of('back')} goes back."

    def note_words(self, shown: int, total: int) -> str:
        """How many replicas, or how many groups of them."""
        from kshunt.tui.views.partitions.group_table import GroupTable

        query, table = self.kshunt.store.queries[self.VIEW], self.grid.table
        if isinstance(table, GroupTable):
            return many(shown, table.kind)
        if query.inside is not None:
            return f"{query.inside}: {shown:,}"
        return ""

    # Details

    def action_details(self) -> None:
        """Open the group, or the details."""
        from kshunt.tui.facts.replica_groups import GroupKey

        key = self.grid.cursor_key
        if isinstance(key, GroupKey):
            self._ask(inside=key)
        else:
            super().action_details()

    def can_tell(self, key: RowKey) -> bool:
        """A replica, and no group of them."""
        from kshunt.tui.facts.replica_groups import GroupKey

        return not isinstance(key, GroupKey)

    def title_of(self, key: RowKey) -> str:
        """The partition, and the broker."""
        return str(key)

    def lines_most(self) -> int:
        """Half of the terminal is the table's."""
        return self.app.size.height // 2 - ROWS_LEAST

    def lines_of(self, key: RowKey) -> list[PaneLine]:
        """What is said of a replica and its partition; asks for what is not known yet."""
        from kshunt.tui.views.partitions.details import about

        store, key = self.kshunt.store, cast("ReplicaKey", key)
        if store.facts is None:
            return []
        store.lags.look_at(key)
        samples = store.lags.samples(key)
        return about(
            store.facts,
            key,
            samples,
            self.settings_of(key.topic),
            store.scene.operations,
            self.kshunt.glyphs,
            self._stalls_of(key),
            store.now_ms,
        )

    def _stalls_of(self, key: ReplicaKey) -> Rows[StallRow] | None:
        """What the pipeline has of the replica; asks for it where that may have changed."""
        pipeline = self.kshunt.store.scene.answer(PIPELINE)
        if self.kshunt.playback.past or pipeline is None or pipeline.of(STALLS).newest_ms is None:
            return None
        if self._stalls.wants(key):
            self.run_worker(self._fetch_stalls(key), group="stalls")
        return self._stalls.known(key)

    async def _fetch_stalls(self, key: ReplicaKey) -> None:
        before = self._stalls.known(key)
        await self._stalls.fetch(key)
        if self._stalls.known(key) != before:
            self.kshunt.changed.publish("")

    # What is chosen, and what can be done with it

    def action_follow(self) -> None:
        """Only the moving partitions, the furthest behind first; again for all."""
        query = self.kshunt.store.queries[self.VIEW]
        self._opens = False
        if query.follow:
            self._ask(follow=False, order=self._order_before)
            return
        self._order_before = replace(query.order)
        self._ask(follow=True, order=Order("lag_bytes", reverse=True))

    def conditions(self) -> set[str]:
        """Whether only what moves or ails is shown, or a topic is opened, too."""
        query = self.kshunt.store.queries[self.VIEW]
        found = super().conditions() | ({FOLLOWING} if query.follow else set())
        return found | ({OPENED} if query.opened_from is not None else set())

    def on_screen_resume(self) -> None:
        """Somebody comes to this view."""
        self._arrived = True
        self._open_on_active()

    def update_view(self) -> None:
        """What ends may leave nothing to follow."""
        self._open_on_active()
        super().update_view()

    def _open_on_active(self) -> None:
        """Show what moves or ails while something does, unless the operator chose all."""
        store = self.kshunt.store
        if not self._opens or self.kshunt.opens_on_all or store.facts is None:
            return
        query, active = store.queries[self.VIEW], bool(store.facts.active.any())
        if self._arrived and active and replace(query, order=NATURAL) == Query():
            self._order_before = query.order
            self._ask(follow=True)
        elif query.follow and not active:
            self._ask(follow=False, order=self._order_before)
        self._arrived = False

    def chosen_partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the marked rows and groups, or of the row under the cursor."""
        from kshunt.tui.facts.replica_groups import GroupKey

        keys = [key for key in self.grid.marked or {self.grid.cursor_key} if key is not None]
        groups = [key for key in keys if isinstance(key, GroupKey)]
        replicas = [cast("ReplicaKey", key) for key in keys if not isinstance(key, GroupKey)]
        found = {TopicPartition(key.topic, key.partition) for key in replicas}
        return tuple(sorted(found | self._of_groups(groups)))

    def _of_groups(self, groups: list[GroupKey]) -> set[TopicPartition]:
        store = self.kshunt.store
        if not groups or store.facts is None:
            return set()
        from kshunt.tui.views.partitions.group_table import partitions_of

        query = store.queries[self.VIEW]
        return partitions_of(store.facts, query.terms, query.follow, groups, store.scene.operations)

    def chosen_fix(self) -> Fix | None:
        """Of the replica under the cursor, where it does not advance."""
        from kshunt.tui.views.stuck_fixes import fix_of_replica

        stuck = self._chosen_stuck()
        return None if stuck is None else fix_of_replica(self.kshunt.store, stuck)

    def no_fix_text(self) -> str:
        """The diagnosis of the replica under the cursor, where it is stuck."""
        stuck = self._chosen_stuck()
        if stuck is None or not stuck.cause.is_stuck:
            return ""
        from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
        from kshunt.tui.facts.stuck_words import WORDING

        text = stuck_text(stuck, WORDING)
        place = f"{stuck.partition} on broker {stuck.broker}"
        return f"kshunt knows no change for {place}: {text.short}. {text.action}"

    def _chosen_stuck(self) -> Stuck | None:
        """Why the replica under the cursor does not advance; None where it does."""
        from kshunt.tui.facts.row_keys import ReplicaKey

        key, snapshot = self.grid.cursor_key, self.kshunt.store.scene.snapshot
        if snapshot is None or not isinstance(key, ReplicaKey):
            return None
        return snapshot.explained.get((TopicPartition(key.topic, key.partition), key.broker))
