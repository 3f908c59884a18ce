"""One backend: a cluster, its sampler, its operations and its events, tied together.

Owned by the process that serves the API; the routes see this object and nothing below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass, field

from backend import __version__
from backend.admin.port import ClusterAdmin
from backend.api import documents
from backend.api.client import ClusterInfo
from backend.api.events import EventLog
from backend.clock import Clock
from backend.domain.operation import Operation
from backend.domain.snapshot import Snapshot
from backend.errors import ClusterUnreachable
from backend.operations.election import Elections
from backend.operations.ledger import Ledger
from backend.operations.queries import Queries
from backend.operations.reassign import Reassignments
from backend.operations.registry import Registry
from backend.operations.throttle import ThrottleChanges
from backend.settings import Settings
from backend.telemetry.hub import SnapshotHub
from backend.telemetry.sampler import Sampler

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_S = 8.0
"""How long a reader waits for the first snapshot of a cluster that is slow to answer."""


@dataclass(eq=False)
class Backend:
    """See the module's text; `start` and `stop` bracket its life."""

    settings: Settings
    admin: ClusterAdmin
    clock: Clock
    hub: SnapshotHub = field(init=False)
    events: EventLog = field(init=False)
    registry: Registry = field(init=False)
    queries: Queries = field(init=False)
    reassignments: Reassignments = field(init=False)
    throttles: ThrottleChanges = field(init=False)
    elections: Elections = field(init=False)
    sampler: Sampler = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        admin, timeout_s = self.admin, self.settings.request_timeout_s
        ledger = Ledger()
        self.hub, self.events = SnapshotHub(), EventLog(self.clock.now_ms())
        self.registry = Registry(self.clock, self._operation_changed)
        self.queries = Queries(admin, self.clock, ledger, timeout_s=timeout_s)
        self.reassignments = Reassignments(admin, self.registry, ledger, timeout_s)
        self.throttles = ThrottleChanges(admin, self.registry, ledger, timeout_s)
        self.elections = Elections(admin, self.registry, timeout_s, self.clock)
        self.sampler = Sampler(admin, self.clock, self.settings.sampler, self.hub)

    async def start(self) -> None:
        """Begin to sample and to watch the operations."""
        self._tasks = [
            asyncio.create_task(self.sampler.run(), name="sampler"),
            asyncio.create_task(self._watch(), name="operations"),
        ]

    async def stop(self) -> None:
        """End the tasks and release the cluster's connections."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.admin.close()

    async def _watch(self) -> None:
        """Advance the operations with each snapshot, or each sweep where none comes."""
        version = 0
        while True:
            with contextlib.suppress(TimeoutError):
                waiting = self.hub.newer_than(version)
                version = (await asyncio.wait_for(waiting, self.settings.sampler.sweep_s)).version
            await self.reassignments.tick()

    def _operation_changed(self, operation: Operation) -> None:
        self.events.publish("operation", documents.operation_json(operation))
        self.sampler.nudge()

    async def snapshot(self) -> Snapshot:
        """The newest snapshot, waiting a little for the first.

        Raises:
            ClusterUnreachable: there is none yet.
        """
        try:
            return await asyncio.wait_for(self.hub.newer_than(0), FIRST_SNAPSHOT_S)
        except TimeoutError:
            raise ClusterUnreachable(
                f"The cluster at {self.settings.bootstrap_servers} has not answered yet.",
                advice="The backend keeps trying; look again.",
            ) from None

    async def cluster_info(self) -> ClusterInfo:
        """Which cluster this is.

        Raises:
            ClusterUnreachable: it has not answered yet.
        """
        snapshot = await self.snapshot()
        rows = snapshot.replicas
        moving = rows.adding | rows.removing
        partitions = set(zip(rows.topic_index[moving], rows.partition[moving], strict=True))
        return ClusterInfo(
            cluster_id=snapshot.cluster_id,
            bootstrap_servers=self.settings.bootstrap_servers,
            controller=snapshot.controller,
            brokers=sum(not status.stale for status in snapshot.brokers.values()),
            topics=len(snapshot.topics),
            replicas=len(rows),
            moving_partitions=len(partitions),
            sampled_ms=snapshot.taken_ms,
            backend_pid=os.getpid(),
            backend_version=__version__,
        )
