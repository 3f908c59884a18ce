"""The routes of throttles that no move justifies."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.drift import MendRequestModel
from kshunt.backend.api.schema.throttles import OrphanThrottles
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.operations.throttles.repair import shown_orphan


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)
    changes = Routes(app, Role.OPERATOR)
    throttle_repair = backend.throttle_repair

    @views.get("/v1/orphans", OrphanThrottles)
    async def orphans() -> Any:
        """Rates and listed replicas that no move needs, with their likely origin."""
        return OrphanThrottles(tuple(map(shown_orphan, await throttle_repair.orphans())))

    @changes.post("/v1/orphans/remove", ChangeAnswer)
    async def remove(body: MendRequestModel) -> Any:
        """Remove throttles that are still orphans."""
        change = await require_active(backend, body)
        return await throttle_repair.remove_orphans(body.ids, change)
