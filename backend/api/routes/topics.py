"""The routes about whole topics: which there are, what they are, and how they shrink."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Path, Response
from pydantic import BaseModel, Field

from backend.access.roles import Role
from backend.api.http import problems
from backend.api.http.paths import TOPIC_PATTERN
from backend.api.http.route_roles import Routes
from backend.api.models.proposals import PROPOSED
from backend.api.models.shrinks import (
    DeletedPartitionsModel,
    DeletePartitionsRequestModel,
    ShrinkSupportModel,
)
from backend.api.models.topics import DescribedTopicsModel, DescribeTopicsRequestModel, TopicsModel
from backend.api.schema.topics import described_json, summary_json
from backend.api.service import two_person_changes
from backend.api.service.backend import Backend
from backend.domain.topics.summaries import summaries
from backend.settings import LIMITS

TopicName = Annotated[
    str, Path(min_length=1, max_length=249, json_schema_extra={"pattern": TOPIC_PATTERN})
]


class TopicConfigModel(BaseModel):
    """One setting that is in force."""

    name: str
    value: str | None = Field(description="null where the cluster does not show it")
    source: str = Field(description="Kafka's name of where it is set")
    is_default: bool = Field(description="neither the topic nor a broker sets it")


class TopicConfigsModel(BaseModel):
    """Everything a topic is configured with, sorted by name."""

    topic: str
    configs: list[TopicConfigModel]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _reads(app, backend)
    _shrink(app, backend)


def _reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    timeout_s = backend.settings.request_timeout_s

    @views.get("/v1/topics", response_model=TopicsModel)
    async def listed() -> Any:
        """Every topic, asked of the cluster."""
        state = await backend.admin.describe(timeout_s=timeout_s)
        return await _large(
            lambda: {"topics": list(map(summary_json, summaries(state.assignment)))}
        )

    @views.post(
        "/v1/topics/describe",
        response_model=DescribedTopicsModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def describe(body: DescribeTopicsRequestModel) -> Any:
        """Topics with their partitions, asked of the cluster."""
        found = await backend.admin.describe_topics(
            body.topics, configs=body.configs, min_isr=body.min_isr, timeout_s=timeout_s
        )
        return await _large(lambda: described_json(found))

    @views.get("/v1/topics/{topic}/configs", response_model=TopicConfigsModel)
    async def configs(topic: TopicName) -> Any:
        """Everything a topic is configured with, asked of the cluster."""
        found = await backend.admin.topic_configs(topic, timeout_s=timeout_s)
        if found is None:
            return problems.problem(
                404,
                "No such topic",
                f"The cluster has no topic '{topic}'.",
                advice="It may have been deleted since it was shown.",
                kafka_code=3,
            )
        return {"topic": topic, "configs": [asdict(one) for one in found]}


async def _large(document: Callable[[], Any]) -> Response:
    """An answer that may be megabytes long, written while the event loop goes on."""
    body = await asyncio.to_thread(lambda: json.dumps(document(), separators=(",", ":")))
    return Response(body, media_type="application/json")


def _shrink(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    admins = Routes(app, Role.ADMIN)

    @views.get("/v1/topics/deletion", response_model=ShrinkSupportModel)
    async def support() -> Any:
        """Whether the cluster deletes partitions by itself (KIP-694)."""
        timeout_s = backend.settings.request_timeout_s
        return {"support": str(await backend.admin.shrink_support(timeout_s=timeout_s))}

    @admins.post(
        "/v1/topics/delete-partitions",
        response_model=DeletedPartitionsModel,
        responses=PROPOSED,
    )
    async def delete_partitions(body: DeletePartitionsRequestModel) -> Any:
        """KIP-694, deletePartitions: topics keep their first partitions, the others go."""
        return await two_person_changes.asked(backend, two_person_changes.DELETE, "", body)
