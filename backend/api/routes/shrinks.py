"""The routes of a durable shrink: it is started, and it is agreed to cut over."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from backend.access.roles import Role
from backend.api.http.route_roles import Routes
from backend.api.models.base import ChangeModel
from backend.api.models.proposals import PROPOSED
from backend.api.models.shrinks import ConfirmRequestModel, ShrinkRequestModel
from backend.api.routes.operations import OperationId
from backend.api.routes.topics import TopicName
from backend.api.service import two_person_changes
from backend.api.service.backend import Backend


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    admins = Routes(app, Role.ADMIN)

    @admins.post("/v1/topics/{topic}/shrink", response_model=ChangeModel, responses=PROPOSED)
    async def shrink(topic: TopicName, body: ShrinkRequestModel) -> Any:
        """Let a topic have fewer partitions, on a cluster that cannot drop one: an operation that
        copies and verifies it, and goes no further before the topic's name was typed."""
        return await two_person_changes.asked(backend, two_person_changes.SHRINK, topic, body)

    @admins.post(
        "/v1/operations/{operation_id}/confirm", response_model=ChangeModel, responses=PROPOSED
    )
    async def confirm(operation_id: OperationId, body: ConfirmRequestModel) -> Any:
        """Agree to what a shrink cannot take back; only the topic's own name does."""
        return await two_person_changes.asked(
            backend, two_person_changes.CUT_OVER, operation_id, body
        )
