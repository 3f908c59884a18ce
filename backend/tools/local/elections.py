"""Previews of elections by this very process, for when no backend runs: none is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.election import ElectionAnswer
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.elections.preferred import Elections, Pacing
from kshunt.backend.tools.local.cluster import LocalCluster


class LocalElections:
    """What a backend would do, done here by the code that it would run."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def elect_preferred_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        change: Change,
        *,
        batch_size: int | None,
        pause_ms: int,
        timeout_ms: int,
    ) -> ElectionAnswer:
        """See `ElectionsClient.elect_preferred_leaders`."""
        clock = SystemClock()
        registry = Registry(clock, lambda operation: None)
        elections = Elections(self._cluster.admin, registry, timeout_ms / 1000, clock)
        pacing = Pacing(batch_size, pause_ms / 1000)
        answer = self._cluster.run(elections.elect(partitions, change, pacing=pacing))
        # Nobody can be asked for an operation of a process that has ended.
        return replace(answer, operation_id=None)
