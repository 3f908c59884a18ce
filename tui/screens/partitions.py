"""The partitions view: which replica is how far, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from backend.domain.cluster import TopicPartition
from tui.screens.table import TableScreen
from tui.tables.base import Order
from tui.views import PARTITIONS

if TYPE_CHECKING:
    from tui.tables.partitions import ReplicaKey


class PartitionsScreen(TableScreen):
    """One row a replica."""

    VIEW: ClassVar[str] = PARTITIONS
    NOUN: ClassVar[str] = "replica"
    HAS_PLOT: ClassVar[bool] = True

    _order_before = Order()
    """The sort order from before the moves were followed."""

    def action_follow(self) -> None:
        """Only the moving partitions, the furthest behind first; again for all."""
        query = self.kshunt.store.queries[self.VIEW]
        if query.follow:
            self._ask(follow=False, order=self._order_before)
            return
        self._order_before = replace(query.order)
        self._ask(follow=True, order=Order("lag_bytes", reverse=True))

    def chosen_partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the marked rows, or of the row under the cursor."""
        keys = self.grid.marked or {self.grid.cursor_key}
        replicas = [cast("ReplicaKey", key) for key in keys if key is not None]
        return tuple(sorted({TopicPartition(key.topic, key.partition) for key in replicas}))

    def action_cancel(self) -> None:
        """Cancel the moves of the chosen partitions."""
        if not self.refused("cancel"):
            self.kshunt.flows.cancel(self.chosen_partitions())

    def action_elect(self) -> None:
        """Elect the preferred leaders of the chosen partitions."""
        if not self.refused("elect"):
            self.kshunt.flows.elect(self.chosen_partitions())

    def action_edit(self) -> None:
        """Edit the throttled replicas of the row's topic."""
        chosen = self.chosen_partitions()
        if not self.refused("edit") and chosen:
            self.kshunt.flows.edit_lists(chosen[0].topic)
