"""Requests about whole topics: which to describe, and how to alter them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    WHOLE,
    ChangeModel,
    Int32,
    Strict,
    TimeoutMs,
    Topic,
)
from kshunt.backend.limits import LIMITS


class DescribeTopicsRequestModel(Strict):
    """Which topics, and what of them."""

    topics: list[Topic] | None = Field(
        default=None, max_length=10_000, description="null: every topic"
    )
    configs: bool = Field(
        default=True, description="include Kafka's default for each key that is not configured"
    )
    min_isr: bool = Field(default=False, description="include the min.insync.replicas in force")


class AssignmentModel(Strict):
    """Replicas of one partition."""

    partition: Int32
    replicas: list[Int32] = Field(min_length=1, max_length=1_000)


class AlteredTopicModel(Strict):
    """KIP-179 early draft, AlteredTopic: -1 and an empty assignment leave things as they are."""

    topic: Topic
    partitions: Annotated[int, Field(ge=-1, le=2**31 - 1), WHOLE] = -1
    replication_factor: Annotated[int, Field(ge=-1, le=2**15 - 1), WHOLE] = -1
    assignment: list[AssignmentModel] = Field(default=[], max_length=LIMITS.partitions_per_request)


class AlterTopicsRequestModel(ChangeModel):
    """KIP-179 early draft, alterTopics."""

    topics: list[AlteredTopicModel] = Field(min_length=1, max_length=10_000)
    timeout_ms: TimeoutMs = 10_000
