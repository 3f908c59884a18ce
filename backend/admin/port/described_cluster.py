"""Which brokers a cluster has, and who hosts what: what every other subject starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kshunt.backend.domain.cluster.assignment import ClusterState


class DescribedCluster(Protocol):
    """A cluster that says what it consists of."""

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        """Brokers, and who hosts what: of all topics, or of those named.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...
