"""A broker that comes back while something moves, and what was last seen of it while away."""

from __future__ import annotations

import pytest

from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.embedded.core.spec import ClusterSpec
from kshunt.backend.embedded.running import run_cluster
from kshunt.backend.embedded.scenario.model import Reassign, Scenario, TopicSpec
from kshunt.backend.settings import SamplerSettings
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.admin import connected
from tests.support.operations.stuck import published_causes
from tests.support.sampled_cluster import BROKERS, PATIENCE_S, ClusterClock, Sampled

MB = 1_000_000
TOPICS = (
    TopicSpec(
        "t", 1, bytes_per_partition=500 * MB, size_spread=0.0, brokers=(1, 2, 3), leaders=(1,)
    ),
    TopicSpec("u", 3, bytes_per_partition=MB, size_spread=0.0, brokers=(1, 2, 3), leaders=(2,)),
)
"""What moves, and what is described once a sweep only."""
MOVE = Reassign(0, moves={("t", 0): (1, 2, 4)}, throttle_bytes_per_s=2 * MB)
SWEEP_S = 10.0


@pytest.mark.slow
async def test_its_replicas_are_not_blamed_on_a_disk() -> None:
    scenario = Scenario("mine", "t", "a", BROKERS, topics=TOPICS, events=(MOVE,))
    async with (
        run_cluster(ClusterSpec(BROKERS, simulated=True), scenario) as here,
        connected(here.cluster.bootstrap_servers) as admin,
    ):
        settings = SamplerSettings(
            tick_s=2 * PATIENCE_S, sweep_s=SWEEP_S, broker_timeout_s=PATIENCE_S
        )
        sampler = Sampler(admin, ClusterClock(here.cluster), settings, SnapshotHub())
        seen = Sampled(here.cluster, sampler)
        await seen.until(lambda found: not found)
        for late_s in range(int(SWEEP_S)):
            # At every moment between two sweeps.
            await seen.cluster.stop_broker(3)
            await seen.until(lambda found: Cause.BROKER_DOWN in found.values())
            await seen.cluster.start_broker(3)
            for _ in range(late_s + int(SWEEP_S)):
                snapshot = await seen.tick()
                assert snapshot is not None
                assert blamed(snapshot) == []
            await seen.until(lambda found: not found)


def blamed(snapshot: Snapshot) -> list[tuple[str, int, int]]:
    """The replicas that are said to lie in a directory that is offline."""
    found = published_causes(snapshot)
    return [replica for replica, cause in found.items() if cause is Cause.LOG_DIR_OFFLINE]
