"""The route that says what a topic is configured with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Path
from pydantic import BaseModel, Field

from backend.api import problems
from backend.api.backend import Backend

TopicName = Annotated[str, Path(min_length=1, max_length=249)]


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
    """Add the route."""

    @app.get("/v1/topics/{topic}/configs", response_model=TopicConfigsModel)
    async def configs(topic: TopicName) -> Any:
        """Everything a topic is configured with, asked of the cluster."""
        timeout_s = backend.settings.request_timeout_s
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
