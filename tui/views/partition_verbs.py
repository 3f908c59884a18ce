"""A table whose rows stand for partitions: what can be done with them, how topics are set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kshunt.backend.domain.text.formatting import many
from kshunt.tui.actions import FIELDED
from kshunt.tui.views.pane_screen import PaneScreen
from kshunt.tui.views.partitions.topic_configs import TopicConfigCache, TopicSettings
from kshunt.tui.views.table_screen import MARK_LIMIT

if TYPE_CHECKING:
    from kshunt.backend.domain.cluster.metadata import TopicPartition


class PartitionVerbsScreen(PaneScreen):
    """Subclasses say which partitions are chosen."""

    FILTERS_WORDS: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._configs = TopicConfigCache(
            lambda question: self.kshunt.link.ask(question), lambda: self.kshunt.store.now_s()
        )

    def conditions(self) -> set[str]:
        """Filters have fields."""
        return super().conditions() | {FIELDED}

    def clear_marks(self) -> None:
        """Unmark every row, and forget topics: this is another cluster."""
        super().clear_marks()
        self._configs.forget()

    def settings_of(self, topic: str) -> TopicSettings:
        """What a topic is configured with; asks for it where that is not known yet."""
        if self.kshunt.playback.past:
            # What is configured at present may not have been configured then.
            return TopicSettings(None, "not recorded: a recording holds no configurations")
        if self._configs.wants(topic):
            self.run_worker(self._fetch_configs(topic), group="configs")
        return TopicSettings(*self._configs.known(topic))

    async def _fetch_configs(self, topic: str) -> None:
        await self._configs.fetch(topic)
        self.kshunt.changed.publish("")

    def chosen_partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the marked rows, or of the row under the cursor."""
        raise NotImplementedError

    def _chosen_or_refused(self, id: str) -> tuple[TopicPartition, ...] | None:
        """The chosen partitions; None, and said why, where it cannot be done."""
        if self.refused(id):
            return None
        chosen = self.chosen_partitions()
        if len(chosen) > MARK_LIMIT:
            self.say(
                f"{len(chosen):,} partitions are too many to show together; filter first.", "warn"
            )
            return None
        return chosen

    def _topics_or_refused(self, id: str) -> list[str] | None:
        """The topics of the chosen partitions; None, and said why, where it cannot be done."""
        chosen = self._chosen_or_refused(id)
        return None if chosen is None else sorted({partition.topic for partition in chosen})

    def action_plan(self) -> None:
        """Make a plan for the topics of the chosen partitions."""
        topics = self._topics_or_refused("plan")
        if topics is not None:
            self.kshunt.workflows.plan(topics=topics)

    def action_cancel(self) -> None:
        """Cancel the moves of the chosen partitions."""
        chosen = self._chosen_or_refused("cancel")
        if chosen is not None:
            self.kshunt.workflows.cancel(chosen)

    def action_elect(self) -> None:
        """Elect the preferred leaders of the chosen partitions."""
        chosen = self._chosen_or_refused("elect")
        if chosen is not None:
            self.kshunt.workflows.elect(chosen)

    def action_shrink(self) -> None:
        """Let the topic of the row have fewer partitions."""
        topic = self._one_topic("shrink", "A shrink")
        if topic is not None:
            self.kshunt.workflows.shrink(topic)

    def action_alter(self) -> None:
        """Give the topic of the row more partitions, or another replication factor."""
        topic = self._one_topic("alter", "This")
        if topic is not None:
            self.kshunt.workflows.alter(topic)

    def action_edit(self) -> None:
        """Edit the throttled replicas of the row's topic."""
        topics = self._topics_or_refused("edit")
        if topics:
            self.kshunt.workflows.edit_lists(topics[0])

    def _one_topic(self, action: str, what: str) -> str | None:
        """The topic of what is chosen, where it is one."""
        topics = self._topics_or_refused(action)
        if topics is None:
            return None
        if len(topics) == 1:
            return topics[0]
        self.say(
            f"{what} is about one topic; {many(len(topics), 'topic')} are chosen here.", "warn"
        )
        return None
