"""The routes of the cluster: which it is, its brokers, and who acts on it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.models.cluster import BackendModel, BrokersModel, ClusterModel
from kshunt.backend.api.schema.frames.writer import broker_status_json
from kshunt.backend.api.service import operations_json
from kshunt.backend.api.service.backend import Backend


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/cluster", response_model=ClusterModel)
    async def cluster() -> Any:
        """Which cluster this backend serves, and how fresh its picture is."""
        return asdict(await backend.cluster_info())

    @views.get("/v1/brokers", response_model=BrokersModel)
    async def brokers() -> Any:
        """Every broker that is up or hosts a replica."""
        snapshot = await backend.snapshot()
        statuses = [broker_status_json(status) for status in snapshot.brokers.values()]
        return {"version": snapshot.version, "brokers": statuses}

    @views.get("/v1/backend", response_model=BackendModel)
    async def backend_status() -> Any:
        """Whether this backend acts, or who does, and what of the journal cannot be read."""
        known = backend.registry.known
        unreadable = {**known.unreadable, **known.aside}
        return operations_json.backend_json(
            backend.membership,
            unreadable,
            backend.admin.not_offered,
            in_zookeeper=bool(backend.settings.zookeeper),
            remarks=backend.second_copy.remarks,
        )
