"""The route of previews: what an action would touch."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.request_values import partitions_of, plan_of, rates_of, replicas_of
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.previews import PreviewRequestModel
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.errors import BadInput
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.review.blast_radius import Request


def install(app: FastAPI, backend: Backend) -> None:
    """Add the route."""
    views = Routes(app, Role.VIEWER)

    @views.post("/v1/preview", Preview, body_bytes=LIMITS.request_body_bytes)
    async def preview(body: PreviewRequestModel) -> Any:
        """The effect of an action; nothing is changed."""
        return (await backend.previews.radius(await _request(backend, body))).preview


async def _request(backend: Backend, body: PreviewRequestModel) -> Request:
    previews = backend.previews
    partitions = None if body.partitions is None else partitions_of(body.partitions)
    match body.action:
        case "start" if body.plan is not None:
            return previews.start(await plan_of(body.plan), body.throttle_bytes_per_s)
        case "cancel" if partitions:
            return await previews.cancel(partitions)
        case "cancel" if body.operation_id:
            return await previews.cancel(previews.partitions_of(body.operation_id))
        case "pause" if body.operation_id:
            return previews.pause(body.operation_id)
        case "undo" if body.operation_id:
            return await previews.undo(body.operation_id)
        case "elect":
            return previews.elect(partitions)
        case "throttle":
            return previews.throttle(
                rates_of(body.rates), await replicas_of(backend, body.replicas)
            )
        case _:
            raise BadInput(
                f"A preview of '{body.action}' needs more fields.",
                advice="start needs a plan, cancel needs partitions or an operation, pause and "
                "undo need an operation.",
            )
