"""Topics seen by this very process, for when no backend runs: no second one is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.operations.change import Change
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
from kshunt.backend.tools.local.cluster import LocalCluster

READ_S: Final = 10.0


class LocalTopics:
    """What a backend would answer, worked out here. Nothing is changed: that is for a backend."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def list(self) -> tuple[TopicSummary, ...]:
        """See `TopicsClient.list`."""
        state = self._cluster.run(self._cluster.admin.cluster.describe(timeout_s=READ_S))
        return tuple(summaries(state.assignment))

    def describe(
        self, topics: Sequence[str] | None = None, *, configs: bool = True, min_isr: bool = False
    ) -> TopicsDescribed:
        """See `TopicsClient.describe`."""
        asked = self._cluster.admin.topics.describe(
            topics, configs=configs, min_isr=min_isr, timeout_s=READ_S
        )
        return self._cluster.run(asked)

    def alter(
        self, topics: Mapping[str, AlteredTopic], change: Change, *, timeout_ms: int
    ) -> ChangeAnswer:
        """What altering the topics would come to; see `TopicsClient.alter`."""
        _only_check(change)
        admin = self._cluster.admin
        admin.placing = self._cluster.placing()
        asked = admin.alterations.alter(topics, validate_only=True, timeout_s=timeout_ms / 1000)
        return ChangeAnswer(True, None, results(self._cluster.run(asked)))


class LocalShrinks:
    """The same for topics that are to have fewer partitions."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def support(self) -> ShrinkSupport:
        """See `ShrinksClient.support`."""
        return self._cluster.run(self._cluster.admin.partition_deletions.support(timeout_s=READ_S))

    def start(self, request: ShrinkRequest, change: Change) -> ChangeAnswer:
        """What copying a topic would come to; see `ShrinksClient.start`."""
        _only_check(change)
        admin, clock = self._cluster.admin, SystemClock()
        registry = Registry(clock, lambda operation: None)
        context = Context(admin, registry, clock, READ_S)
        shrinks = Shrinks(context, ShrinkChecks(admin, clock, timeout_s=READ_S))
        return self._cluster.run(shrinks.start(request, change))

    def delete_partitions(
        self, topics: Mapping[str, DeletePartitions], change: Change, *, timeout_ms: int
    ) -> ShrinkAnswer:
        """What would become of partitions; see `ShrinksClient.delete_partitions`."""
        _only_check(change)
        asked = self._cluster.admin.partition_deletions.delete(
            topics, validate_only=True, timeout_s=timeout_ms / 1000
        )
        return ShrinkAnswer(True, None, deletions_of(self._cluster.run(asked)))


def _only_check(change: Change) -> None:
    if not change.validate_only:
        raise ValueError("only a backend can change topics")
