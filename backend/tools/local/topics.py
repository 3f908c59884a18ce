"""Topics seen by this very process, for when no backend runs: no second one is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletePartitions,
    ShrinkAnswer,
    ShrinkSupport,
    deletions_of,
)
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.descriptions import TopicsDescribed, TopicSummary
from kshunt.backend.domain.topics.summaries import summaries
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.results import results
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.operations.shrink.requests import Shrinks
from kshunt.backend.tools.local.cluster import LocalReader

READ_S: Final = 10.0


class LocalTopics(LocalReader):
    """What a backend would answer, worked out here. Nothing is changed: that is for a backend."""

    def topics(self) -> tuple[TopicSummary, ...]:
        """See `BackendClient.topics`."""
        state = self._runner.run(self._admin.cluster.describe(timeout_s=READ_S))
        return tuple(summaries(state.assignment))

    def describe_topics(
        self, topics: Sequence[str] | None = None, *, configs: bool = True, min_isr: bool = False
    ) -> TopicsDescribed:
        """See `BackendClient.describe_topics`."""
        asked = self._admin.topics.describe(
            topics, configs=configs, min_isr=min_isr, timeout_s=READ_S
        )
        return self._runner.run(asked)

    def shrink_support(self) -> ShrinkSupport:
        """See `BackendClient.shrink_support`."""
        return self._runner.run(self._admin.partition_deletions.support(timeout_s=READ_S))

    def alter_topics(
        self,
        topics: Mapping[str, AlteredTopic],
        *,
        validate_only: bool,
        timeout_ms: int,
        who: str,
        reason: str,
    ) -> ChangeAnswer:
        """What altering the topics would come to; see `BackendClient.alter_topics`."""
        if not validate_only:
            raise ValueError("a change is for a backend")
        self._admin.placing = self.placing()
        found = self._runner.run(
            self._admin.alterations.alter(topics, validate_only=True, timeout_s=timeout_ms / 1000)
        )
        return ChangeAnswer(True, None, results(found))

    def shrink(
        self,
        request: ShrinkRequest,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """What copying a topic would come to; see `BackendClient.shrink`."""
        if not validate_only:
            raise ValueError("a change is for a backend")
        clock = SystemClock()
        registry = Registry(clock, lambda operation: None)
        context = Context(self._admin, registry, clock, READ_S)
        shrinks = Shrinks(context, ShrinkChecks(self._admin, clock, timeout_s=READ_S))
        return self._runner.run(shrinks.start(request, validate_only=True))

    def delete_partitions(
        self,
        topics: Mapping[str, DeletePartitions],
        *,
        validate_only: bool,
        timeout_ms: int,
        who: str,
        reason: str,
    ) -> ShrinkAnswer:
        """What would become of partitions; see `BackendClient.delete_partitions`."""
        if not validate_only:
            raise ValueError("a change is for a backend")
        found = self._runner.run(
            self._admin.partition_deletions.delete(
                topics, validate_only=True, timeout_s=timeout_ms / 1000
            )
        )
        return ShrinkAnswer(True, None, deletions_of(found))
