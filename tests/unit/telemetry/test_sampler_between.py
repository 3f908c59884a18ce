"""A move that begins between two answers of one tick."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.settings import SamplerSettings, Settings
from kshunt.backend.telemetry.sampling.sampler import Sampler
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.admin import instead
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import listening
from tests.support.native import T0, TIMEOUT_S, move


class MoveBetween:
    """Starts a move once reassignments are listed, before it describes, where it is told to."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self.to_move = False
        self._listed = asyncio.Event()

    async def ongoing(self, *, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        found = await self._admin.reassignments.ongoing(timeout_s=timeout_s)
        self._listed.set()
        return found

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        if self.to_move:
            self.to_move = False
            self._listed.clear()
            await self._listed.wait()
            await move(self._admin)
        return await self._admin.cluster.describe(topics, timeout_s=timeout_s)


async def test_what_it_adds_is_never_shown_as_fallen_behind() -> None:
    async with listening(native=False) as cluster, asyncio.timeout(60):
        cluster.create("t", [1, 2], [2, 3])
        cluster.fill("t", 100 * MB)
        admin = KafkaAdmin(Settings(cluster.bootstrap_servers))
        between = MoveBetween(admin)
        try:
            await admin.connect()
            settings = SamplerSettings(tick_s=0.2, sweep_s=0.01, broker_timeout_s=TIMEOUT_S)
            watched = instead(admin, cluster=between, reassignments=between)
            sampler = Sampler(watched, SystemClock(), settings, SnapshotHub())
            while await sampler.tick() is None:
                pass
            between.to_move = True
            added: list[bool] = []
            while not added:
                snapshot = await sampler.tick()
                assert snapshot is not None
                rows = snapshot.replicas
                here = (rows.partition == T0.partition) & (rows.broker == 4)
                added = rows.adding[here].tolist()
            assert added == [True]
        finally:
            await admin.close()
