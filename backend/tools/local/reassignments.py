"""Plans seen by this very process, for when no backend runs."""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.api.schema.progress import ProgressRows
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import OngoingReassignment
from kshunt.backend.domain.reassignment.answers import GeneratedPlan, VerifyAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.tools.local.cluster import LocalCluster


class LocalReassignments:
    """What a backend would answer, worked out here."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._queries = Queries(cluster.admin, SystemClock())

    def list(self) -> tuple[OngoingReassignment, ...]:
        """See `ReassignmentsClient.list`."""
        return tuple(self._cluster.run(self._queries.reassignments()).values())

    def progress(self, plan: ReassignmentPlan) -> ProgressRows:
        """See `ReassignmentsClient.progress`; one look tells no end."""
        return ProgressRows(self._cluster.run(self._queries.progress(plan)))

    def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """See `ReassignmentsClient.verify`."""
        asked = self._queries.verify(plan, preserve_throttles=preserve_throttles)
        return self._cluster.run(asked)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """See `ReassignmentsClient.generate`."""
        cluster = self._cluster
        queries = Queries(cluster.admin, SystemClock(), placing=cluster.placing())
        return cluster.run(queries.generate(topics, brokers, rack_aware=rack_aware))
