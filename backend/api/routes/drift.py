"""The routes of throttles that somebody else changed."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.drift import MendRequestModel
from kshunt.backend.api.schema.throttles import DriftedThrottles
from kshunt.backend.domain.audit.lines import selected
from kshunt.backend.domain.audit.past_drift import PastDrift, past_drift
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.throttles.repair import shown_drift, still_there


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)
    changes = Routes(app, Role.OPERATOR)
    throttle_repair = backend.throttle_repair

    @views.get("/v1/drift", DriftedThrottles)
    async def drift() -> Any:
        """Changes that somebody else made to the throttles of running operations."""
        return DriftedThrottles(tuple(map(shown_drift, await throttle_repair.drift())))

    @views.get("/v1/drift/past", PastDrift)
    async def past() -> Any:
        """Drift of the last 24 hours, as the audit has it, whether or not it is over."""
        rows = read_audit(backend.membership.state)
        since_ms = max(backend.clock.now_ms() - DAY_MS, 0)
        return past_drift(selected(rows, since_ms=since_ms))

    async def reapply_or_accept(body: MendRequestModel, *, ours: bool) -> Any:
        change = await require_active(backend, body)
        shown = still_there(await throttle_repair.drift(), body.ids)
        operations = (id for one in shown.values() for id in one.operations)
        backend.claims.require(operations, change.requester)
        return await throttle_repair.reapply_or_accept(body.ids, change, ours=ours)

    @changes.post("/v1/drift/reapply", ChangeAnswer)
    async def reapply(body: MendRequestModel) -> Any:
        """Restore our throttles that somebody else changed."""
        return await reapply_or_accept(body, ours=True)

    @changes.post("/v1/drift/accept", ChangeAnswer)
    async def accept(body: MendRequestModel) -> Any:
        """Keep the values that somebody else set; they stay when the operation ends."""
        return await reapply_or_accept(body, ours=False)
