"""The routes of a durable shrink: it is started, and it is agreed to cut over."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from backend.access.roles import Role
from backend.api import documents, shrinking_models
from backend.api.backend import Backend
from backend.api.models import ChangeModel
from backend.api.requests import asker_of, meant_for
from backend.api.routes import Routes
from backend.api.steering import OperationId
from backend.api.topics import TopicName


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    admins = Routes(app, Role.ADMIN)

    @admins.post("/v1/topics/{topic}/shrink", response_model=ChangeModel)
    async def shrink(topic: TopicName, body: shrinking_models.ShrinkRequestModel) -> Any:
        """Let a topic have fewer partitions, on a cluster that cannot drop one: an operation that
        copies and verifies it, and goes no further before the topic's name was typed."""
        await meant_for(backend, body.cluster_id)
        if not body.validate_only:
            await backend.ready()
        answer = await backend.shrinks.start(
            body.request(topic), validate_only=body.validate_only, asker=asker_of(body)
        )
        return documents.change_json(answer)

    @admins.post("/v1/operations/{operation_id}/confirm", response_model=ChangeModel)
    async def confirm(operation_id: OperationId, body: shrinking_models.ConfirmRequestModel) -> Any:
        """Agree to what a shrink cannot take back; only the topic's own name does."""
        await meant_for(backend, body.cluster_id)
        await backend.ready()
        answer = await backend.shrinks.confirm(operation_id, body.typed, asker=asker_of(body))
        return documents.change_json(answer)
