"""The routes of a durable shrink: it is started, and it is agreed to cut over."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from backend.access.roles import Role
from backend.api import guarded, shrinking_models
from backend.api.backend import Backend
from backend.api.models import ChangeModel
from backend.api.routes import Routes
from backend.api.steering import OperationId
from backend.api.team_models import PROPOSED
from backend.api.topics import TopicName


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    admins = Routes(app, Role.ADMIN)

    @admins.post("/v1/topics/{topic}/shrink", response_model=ChangeModel, responses=PROPOSED)
    async def shrink(topic: TopicName, body: shrinking_models.ShrinkRequestModel) -> Any:
        """Let a topic have fewer partitions, on a cluster that cannot drop one: an operation that
        copies and verifies it, and goes no further before the topic's name was typed."""
        return await guarded.asked(backend, guarded.SHRINK, topic, body)

    @admins.post(
        "/v1/operations/{operation_id}/confirm", response_model=ChangeModel, responses=PROPOSED
    )
    async def confirm(operation_id: OperationId, body: shrinking_models.ConfirmRequestModel) -> Any:
        """Agree to what a shrink cannot take back; only the topic's own name does."""
        return await guarded.asked(backend, guarded.CUT_OVER, operation_id, body)
