"""Reads of a cluster in this very process, for when no backend runs: no second one is started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshunt.backend.admin.connect import reach
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import OngoingReassignment
from kshunt.backend.domain.reassignment.answers import GeneratedPlan, ProgressRow, VerifyAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.settings import Settings

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer


class LocalReader:
    """What a backend would answer, worked out here by the code that it would run."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster.

        Raises:
            ClusterUnreachable: no broker answered in time.
            ConfigError: the client configuration cannot be used.
        """
        self._settings = settings
        self._runner = asyncio.Runner()
        try:
            self._admin = self._runner.run(reach(settings))
        except BaseException:
            self._runner.close()
            raise
        self._queries = Queries(self._admin, SystemClock())
        try:
            self._runner.run(self._admin.connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the connections."""
        self._runner.run(self._admin.close())
        self._runner.close()
        if self._settings.placer.name:
            from kshunt.backend.placement.placer_calls import close_placers

            close_placers()

    def placing(self) -> BackendPlacer | None:
        """What asks the placer, where one is named; those questions load it that need it.

        Raises:
            ConfigError: it cannot be loaded.
        """
        if not self._settings.placer.name:
            return None
        from kshunt.backend.admin.kips.backend_placer import load_backend_placer

        return load_backend_placer(self._settings.placer, self._admin.cluster, self._admin.logs)

    def reassignments(self) -> tuple[OngoingReassignment, ...]:
        """See `BackendClient.reassignments`."""
        return tuple(self._runner.run(self._queries.reassignments()).values())

    def progress(self, plan: ReassignmentPlan) -> tuple[ProgressRow, ...]:
        """See `BackendClient.progress`."""
        return self._runner.run(self._queries.progress(plan))

    def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """See `BackendClient.verify`."""
        return self._runner.run(self._queries.verify(plan, preserve_throttles=preserve_throttles))

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """See `BackendClient.generate`."""
        queries = Queries(self._admin, SystemClock(), placing=self.placing())
        return self._runner.run(queries.generate(topics, brokers, rack_aware=rack_aware))
