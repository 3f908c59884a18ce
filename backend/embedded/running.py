"""A cluster with its scenario: the two started together, sockets and timeline in step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.core.spec import ClusterSpec
from kshunt.backend.embedded.net.server import LOOPBACK
from kshunt.backend.embedded.scenario.model import Scenario
from kshunt.backend.embedded.scenario.timeline import OwnMove, ScenarioTimeline

STOP_GRACE_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunningCluster:
    """A cluster, and the scenario that it plays."""

    cluster: EmbeddedCluster
    scenario: Scenario | None = None
    timeline: ScenarioTimeline | None = None


def spec_of(scenario: Scenario, spec: ClusterSpec) -> ClusterSpec:
    """A specification with a scenario's brokers and properties, and timed no finer than pays."""
    static = {**scenario.static, **spec.static}
    return replace(
        spec,
        brokers=scenario.brokers,
        static=static,
        users={**scenario.users, **spec.users},
        acls=(*scenario.acls, *spec.acls),
        grain_ms=max(spec.grain_ms, scenario.grain_ms),
    )


@asynccontextmanager
async def run_cluster(
    spec: ClusterSpec,
    scenario: Scenario | None = None,
    submit: Callable[[OwnMove], None] | None = None,
) -> AsyncIterator[RunningCluster]:
    """A cluster from here to the end of the block; of a scenario, `spec` gives all but brokers.

    `submit`: see `ScenarioTimeline`.

    Raises:
        As `EmbeddedCluster`, and its `start`.
    """
    wanted = spec if scenario is None else spec_of(scenario, spec)
    async with EmbeddedCluster(wanted) as cluster:
        running = RunningCluster(cluster, scenario)
        sockets = _ClusterSockets(cluster)
        try:
            if scenario is not None:
                await sockets.reserve()
                running.timeline = ScenarioTimeline(
                    scenario, cluster.core, spec.seed, sockets, submit
                )
                running.timeline.begin()
                cluster.world.changed()
            yield running
        finally:
            await sockets.stop()


class _ClusterSockets:
    """The listeners follow the timeline, which cannot wait for them, one step after the other."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._steps: asyncio.Queue[Callable[[], Awaitable[object]]] = asyncio.Queue()
        self._worker = asyncio.create_task(self._work())

    async def reserve(self) -> None:
        """Let brokers that start later have their ports from the beginning."""
        for place, broker in enumerate(self._cluster.spec.brokers):
            server = self._cluster.servers[broker.id]
            if not server.port:
                base = self._cluster.spec.port_base
                await server.start(base + place if base else 0)
                await server.stop(0.0)

    async def stop(self) -> None:
        """Forget what is still to be done."""
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def address(self, broker: int) -> tuple[str, int]:
        return LOOPBACK, self._cluster.servers[broker].port

    def down(self, broker: int, *, crash: bool) -> None:
        server = self._cluster.servers[broker]
        if crash:
            self._steps.put_nowait(server.reset_connections)
        self._steps.put_nowait(lambda: server.stop(0.0 if crash else STOP_GRACE_S))

    def up(self, broker: int) -> None:
        server = self._cluster.servers[broker]
        server.faults.heal()
        # One that hung still listens.
        self._steps.put_nowait(lambda: server.stop(0.0))
        self._steps.put_nowait(lambda: server.start(server.port))

    def stall(self, broker: int) -> None:
        self._cluster.servers[broker].faults.stall()

    def resume(self, broker: int) -> None:
        self._cluster.servers[broker].faults.resume()

    async def _work(self) -> None:
        while True:
            step = await self._steps.get()
            try:
                await step()
            except OSError as error:
                _log.error("A broker cannot listen any more: %s", error)
