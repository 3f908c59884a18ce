"""A partition whose move has just ended, seen through brokers that hear of it late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, Snapshot
from kshunt.backend.embedded.core.spec import ClusterSpec
from kshunt.backend.embedded.running import run_cluster
from kshunt.backend.embedded.scenario.model import Reassign, Scenario, TopicSpec
from kshunt.backend.settings import SamplerSettings, Settings
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.admin import instead
from tests.support.sampled_cluster import BROKERS, PATIENCE_S, ClusterClock

MB = 1_000_000
LATE = 2
"""Ticks by which brokers hear late of what the controller has decided."""
MOVE = Reassign(0, moves={("t", 0): (1, 2, 4)}, throttle_bytes_per_s=20 * MB)


class LateBrokers:
    """Descriptions of single topics are some ticks old, as a busy broker's are."""

    def __init__(self, cluster: DescribedCluster) -> None:
        self._cluster = cluster
        self._answers: deque[ClusterState] = deque(maxlen=LATE + 1)

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """Of single topics, what was so some ticks ago."""
        state = await self._cluster.describe(topics, timeout_s=timeout_s)
        if topics is None:
            return state
        self._answers.append(state)
        return self._answers[0]


def moving(snapshot: Snapshot) -> bool:
    return bool(snapshot.replicas.adding.any())


async def test_it_is_watched_until_every_broker_has_heard() -> None:
    topic = TopicSpec(
        "t", 1, bytes_per_partition=200 * MB, size_spread=0.0, brokers=(1, 2, 3), leaders=(1,)
    )
    scenario = Scenario("mine", "t", "a", BROKERS, topics=(topic,), events=(MOVE,))
    async with run_cluster(ClusterSpec(BROKERS, simulated=True), scenario) as here:
        admin = KafkaAdmin(Settings(here.cluster.bootstrap_servers))
        try:
            await admin.connect()
            # Between two sweeps nothing but what is watched is described.
            settings = SamplerSettings(
                tick_s=2 * PATIENCE_S, sweep_s=100_000.0, broker_timeout_s=PATIENCE_S
            )
            late = instead(admin, cluster=LateBrokers(admin.cluster))
            sampler = Sampler(late, ClusterClock(here.cluster), settings, SnapshotHub())
            ticks = [await _tick(here.cluster, sampler) for _ in range(60)]
        finally:
            await admin.close()
    seen = [snapshot for snapshot in ticks if snapshot is not None]
    assert any(map(moving, seen))
    assert not moving(seen[-1])
    last = seen[-1].replicas
    assert last.broker.tolist() == [1, 2, 4]
    assert (last.status == ReplicaStatus.IN_SYNC).all()
    ended = max(place for place, snapshot in enumerate(seen) if moving(snapshot)) + 1
    behind = [bool(np.any(s.replicas.status == ReplicaStatus.BEHIND)) for s in seen[ended:]]
    assert sum(behind) <= LATE, "no longer than brokers were late"


async def _tick(cluster: object, sampler: Sampler) -> Snapshot | None:
    cluster.advance(1_000)  # type: ignore[attr-defined]
    return await sampler.tick()
