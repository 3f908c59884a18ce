"""The route that says what speaks against taking partitions from a topic."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query

from backend.access.roles import Role
from backend.api.http import problems
from backend.api.http.route_roles import Routes
from backend.api.models.shrinks import ShrinkCheckModel
from backend.api.routes.topics import TopicName
from backend.api.schema.shrinks import check_json
from backend.api.service.backend import Backend
from backend.domain.shrink.facts import COPY_RATE_BYTES_PER_S
from backend.domain.throttles.configs import RATE_MAX_BYTES_PER_S, RATE_MIN_BYTES_PER_S

Count = Annotated[int, Query(ge=-(2**31), le=2**31 - 1, description="partitions to keep")]
CopyRate = Annotated[
    int,
    Query(
        ge=RATE_MIN_BYTES_PER_S,
        le=RATE_MAX_BYTES_PER_S,
        description="bytes a second that the copy is assumed to make",
    ),
]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the route."""
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/topics/{topic}/shrink", response_model=ShrinkCheckModel)
    async def shrink(
        topic: TopicName,
        partitions: Count,
        copy_rate: CopyRate = int(COPY_RATE_BYTES_PER_S),
    ) -> Any:
        """The safety view of a shrink, asked of the cluster. A count that makes no sense is a
        finding like others."""
        checks = backend.shrink_checks
        found = await checks.check(topic, partitions, copy_rate_bytes_per_s=copy_rate)
        if not found.current:
            finding = found.findings[0]
            return problems.problem(
                404, "No such topic", finding.words, advice=finding.advice, kafka_code=3
            )
        return check_json(found)
