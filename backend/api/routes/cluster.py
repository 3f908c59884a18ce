"""The routes of the cluster: which it is, its brokers, and who acts on it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core import answer_values
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.schema.brokers import BrokerAnswer, Brokers
from kshunt.backend.api.schema.cluster import BackendPart
from kshunt.backend.domain.cluster.metadata import ClusterInfo


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/cluster", ClusterInfo)
    async def cluster() -> Any:
        """The cluster that this backend serves, and the age of its snapshot."""
        return await backend.cluster_info()

    @views.get("/v1/brokers", Brokers)
    async def brokers() -> Any:
        """Every broker that is up or hosts a replica."""
        snapshot = await backend.snapshot()
        brokers = tuple(map(BrokerAnswer.of, snapshot.brokers.values()))
        return Brokers(snapshot.version, brokers)

    @views.get("/v1/backend", BackendPart)
    async def backend_status() -> Any:
        """The active backend, and the journal entries that cannot be read."""
        known = backend.registry.known
        unreadable = {**known.unreadable, **known.aside}
        return answer_values.backend_part(
            backend.membership,
            unreadable,
            backend.admin.not_offered,
            in_zookeeper=bool(backend.settings.zookeeper),
            remarks=(*backend.second_copy.remarks, *backend.calibration.remarks),
            forecast_record=backend.calibration.record,
        )
