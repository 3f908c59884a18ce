"""A cluster in memory, sampled over sockets by its own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.stuck.diagnosis import OwnOperations
from tests.support.operations.stuck import Causes, published_causes

MB = 1_000_000
IN_TIME_S = 35
BROKERS = plain_brokers(4, log_dirs=2)
PATIENCE_S = 5.0
"""A broker that runs may be slow on a busy machine; the cluster's clock stands still meanwhile."""


class ClusterClock:
    """The cluster's time; only waiting takes the machine's."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        return self._cluster.core.now_ms

    def monotonic_s(self) -> float:
        return self._cluster.core.now_ms / 1000

    async def wait_s(self, seconds: float) -> None:
        await asyncio.wait((), timeout=seconds)


class Sampled:
    """A cluster that is sampled once a second of its time."""

    def __init__(self, cluster: EmbeddedCluster, sampler: Sampler) -> None:
        self.cluster = cluster
        self._sampler = sampler
        self.ours = OwnOperations()

    async def tick(self) -> Snapshot | None:
        self.cluster.advance(1_000)
        return await self._sampler.tick()

    async def until(self, goal: Callable[[Causes], bool], seconds: int = IN_TIME_S) -> Snapshot:
        found: Causes = {}
        for _ in range(seconds):
            snapshot = await self.tick()
            found = {} if snapshot is None else published_causes(snapshot)
            if snapshot is not None and goal(found):
                return snapshot
        raise AssertionError(f"after {seconds} s there are still {found}")

    async def pass_quietly(self, seconds: int) -> None:
        """Nothing is stuck all the while."""
        for _ in range(seconds):
            snapshot = await self.tick()
            if snapshot is not None:
                assert not snapshot.explained
                assert not any(c.is_stuck for c in published_causes(snapshot).values())
