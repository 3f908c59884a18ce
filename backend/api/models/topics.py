"""Requests and answers of the routes about whole topics, for validation and for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from backend.api.models.base import WHOLE, ClusterId, Int32, Intent, Strict, TimeoutMs, Topic
from backend.domain.shrink.delete_partitions import DELAY_MS_MAX

DelayMs = Annotated[
    int, Field(ge=0, le=DELAY_MS_MAX, description="milliseconds; 0 is at once"), WHOLE
]
Mode = Annotated[Literal[-1, 0, 1], Field(description="KIP-694: ReadWrite 0, ReadOnly 1, None -1")]


class TopicSummaryModel(BaseModel):
    """One topic of a list."""

    topic: str
    partitions: int
    replication_factor: int
    internal: bool


class TopicsModel(BaseModel):
    """The cluster's topics, by name."""

    topics: list[TopicSummaryModel]


class ShrinkSupportModel(BaseModel):
    """Whether the cluster deletes partitions by itself."""

    support: Literal["enabled", "disabled", "unsupported"]


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


class DeletePartitionsModel(Strict):
    """KIP-694, DeletePartitions: how many partitions a topic shall keep."""

    topic: Topic
    total_count: Int32
    delay_ms: DelayMs = 0


class DeletePartitionsRequestModel(Intent):
    """KIP-694, deletePartitions."""

    topics: list[DeletePartitionsModel] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class DeletedPartitionModel(BaseModel):
    """What became of a partition; partition -1 is a topic that is refused as a whole."""

    topic: str
    partition: int
    mode: Mode
    mode_name: str
    error_code: int
    error_name: str
    message: str


class DeletedPartitionsModel(BaseModel):
    """What became of each partition."""

    validate_only: bool
    operation_id: str | None
    partitions: list[DeletedPartitionModel]
    notes: list[str]
