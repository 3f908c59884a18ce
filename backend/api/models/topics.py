"""Whole topics: which there are, what they are, and how they are altered."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import WHOLE, ClusterId, Int32, Intent, Strict, TimeoutMs, Topic
from kshunt.backend.api.models.shrinks import Mode
from kshunt.backend.settings import LIMITS


class TopicSummaryModel(BaseModel):
    """One topic of a list."""

    topic: str
    partitions: int
    replication_factor: int
    internal: bool


class TopicsModel(BaseModel):
    """The cluster's topics, by name."""

    topics: list[TopicSummaryModel]


class DescribeTopicsRequestModel(Strict):
    """Which topics, and what of them."""

    topics: list[Topic] | None = Field(
        default=None, max_length=10_000, description="null: every topic"
    )
    configs: bool = Field(default=True, description="with what is not configured as Kafka ships it")
    min_isr: bool = Field(default=False, description="with the min.insync.replicas in force")


class DescribedPartitionModel(BaseModel):
    """One partition."""

    partition: int
    leader: int = Field(description="-1 where nobody leads")
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    adding: list[int]
    removing: list[int]
    elr: list[int] | None = Field(description="KIP-966; null where the brokers do not tell")
    last_known_elr: list[int] | None
    mode: Mode
    mode_name: str


class DescribedTopicModel(BaseModel):
    """One topic."""

    topic: str
    topic_id: str = Field(description="empty on a cluster without topic ids")
    internal: bool
    replication_factor: int
    min_insync_replicas: int | None
    configs: dict[str, str | None]
    partitions: list[DescribedPartitionModel]


class DescribedTopicsModel(BaseModel):
    """Topics by name; those that there are not are absent."""

    topics: list[DescribedTopicModel]
    live_brokers: list[int]


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


class AlterTopicsRequestModel(Intent):
    """KIP-179 early draft, alterTopics."""

    topics: list[AlteredTopicModel] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


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
