"""The topics view: what each topic holds, takes and lacks, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from kshunt.tui.actions.view_names import PARTITIONS, TOPICS
from kshunt.tui.facts.view_query import OpenedFrom, Query
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.model import RowKey
from kshunt.tui.views.partition_verbs import PartitionVerbsScreen

if TYPE_CHECKING:
    from kshunt.backend.domain.cluster.metadata import TopicPartition
    from kshunt.tui.facts.replica_groups import GroupKey
    from kshunt.tui.views.topics.table import TopicTable

ROWS_LEAST = 8
"""Lines of the table, its header included, that the pane leaves."""
BROKERS_MOST = 6
"""Lines for brokers in the pane; a dialogue scrolls, and has all of them."""


class TopicsScreen(PartitionVerbsScreen):
    """One row a topic."""

    VIEW: ClassVar[str] = TOPICS
    NOUN: ClassVar[str] = "topic"
    MARKS: ClassVar[bool] = True
    OPENS: ClassVar[str] = "open"

    _pane_open = True

    @property
    def looked_at(self) -> str:
        """The topic under the cursor."""
        key = cast("GroupKey | None", self.grid.cursor_key) if self.query("#grid") else None
        return "" if key is None else key.name

    def action_open(self) -> None:
        """Show the replicas of the topic in the partitions view, which leads back here."""
        key = cast("GroupKey | None", self.grid.cursor_key)
        if key is None:
            return
        queries = self.kshunt.store.queries
        before = queries[PARTITIONS]
        if before.opened_from is not None:
            before = before.opened_from.before
        queries[PARTITIONS] = Query(
            before.order, chosen=True, inside=key, opened_from=OpenedFrom(self.VIEW, before)
        )
        self.app.switch_mode(PARTITIONS)

    def action_about(self) -> None:
        """Show or hide the details of the topic."""
        self.action_details()

    # Details

    def can_tell(self, key: RowKey) -> bool:
        """Of every topic."""
        return True

    def title_of(self, key: RowKey) -> str:
        """`topic payments`."""
        return str(key)

    def lines_most(self) -> int:
        """Half of the terminal is the table's."""
        return self.app.size.height // 2 - ROWS_LEAST // 2

    def lines_of(self, key: RowKey) -> list[PaneLine]:
        """Its moves, what it lacks, its brokers and its configurations."""
        from kshunt.tui.views.topics.details import about

        store, topic = self.kshunt.store, cast("GroupKey", key)
        table = cast("TopicTable | None", store.tables.get(self.VIEW))
        if table is None:
            return []
        most = BROKERS_MOST if self._is_tall else None
        return about(table, topic, self.settings_of(topic.name), store.scene.operations, most)

    # What is chosen

    def chosen_partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions of the marked topics, or of the one under the cursor."""
        from kshunt.tui.views.partitions.group_table import partitions_of

        facts = self.kshunt.store.facts
        if facts is None:
            return ()
        return tuple(sorted(partitions_of(facts, (), False, self._chosen(), ())))

    def _topics_or_refused(self, id: str) -> list[str] | None:
        """The marked topics, or the one under the cursor, however many partitions they have."""
        return None if self.refused(id) else sorted(key.name for key in self._chosen())

    def _chosen(self) -> list[GroupKey]:
        keys = [key for key in self.grid.marked or {self.grid.cursor_key} if key is not None]
        return cast("list[GroupKey]", keys)
