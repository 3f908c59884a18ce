"""When a sampler reads min.insync.replicas: seldom for all topics, immediately for a new topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.settings import SamplerSettings, Settings
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.admin import instead
from tests.support.embedded.listeners import listening
from tests.support.native import TIMEOUT_S
from tests.support.topics import delete_topics


class CountedConfigs:
    """Remembers of which topics it was asked."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self.asked: list[tuple[str, ...]] = []

    async def min_isr(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, int]:
        self.asked.append(tuple(topics))
        return await self._admin.configs.min_isr(topics, timeout_s=timeout_s)


def known(snapshot: Snapshot | None) -> dict[str, int]:
    """min.insync.replicas by topic."""
    if snapshot is None:
        return {}
    return dict(zip(snapshot.topics, snapshot.min_isr, strict=False))


async def test_a_new_topic_is_asked_alone_and_one_that_is_gone_is_forgotten() -> None:
    async with listening(native=False) as cluster, asyncio.timeout(60):
        cluster.create("old", [1, 2])
        cluster.create("gone", [1, 2])
        admin = KafkaAdmin(Settings(cluster.bootstrap_servers))
        configs = CountedConfigs(admin)
        try:
            await admin.connect()
            settings = SamplerSettings(tick_s=0.05, sweep_s=100.0, broker_timeout_s=TIMEOUT_S)
            watched = instead(admin, configs=configs)
            sampler = Sampler(watched, SystemClock(), settings, SnapshotHub())
            while known(await sampler.tick()) != {"old": 1, "gone": 1}:
                pass
            await asyncio.to_thread(delete_topics, cluster.bootstrap_servers, ["gone"])
            cluster.create("new", [2, 3])
            sampler.nudge()
            while known(await sampler.tick()) != {"old": 1, "new": 1}:
                pass
            assert configs.asked == [("gone", "old"), ("new",)]
        finally:
            await admin.close()
