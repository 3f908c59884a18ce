"""Throttles: those that stand, those that are set, and whose they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import (
    ClusterId,
    Int32,
    Intent,
    PartitionModel,
    RateOrNone,
    Replicas,
    Strict,
    TimeoutMs,
    Topic,
)
from kshunt.backend.settings import LIMITS

AutoRemove = Annotated[
    bool,
    Field(
        description="kshunt removes the throttle when the moves that others started end; without "
        "such moves it stays, and a note says so"
    ),
]


class RateModel(BaseModel):
    """A broker's configured rates, and Kafka's config source of each; empty without a rate."""

    broker: int
    leader_bytes_per_s: int | None
    follower_bytes_per_s: int | None
    log_dir_bytes_per_s: int | None
    source: str
    """Of the leader's rate."""
    follower_source: str
    log_dir_source: str


class TopicReplicasAnswerModel(BaseModel):
    """A topic's configured throttled replicas."""

    topic: str
    leaders: str
    followers: str


class ThrottlesModel(BaseModel):
    """Every replication throttle."""

    rates: list[RateModel]
    replicas: list[TopicReplicasAnswerModel]
    unknown_brokers: list[int]


class BrokerRateModel(Strict):
    """A broker's throttled rates; null removes one."""

    broker: Int32
    leader_bytes_per_s: RateOrNone
    follower_bytes_per_s: RateOrNone


class RatesRequestModel(Intent):
    """KIP-179, alterInterbrokerThrottledRates."""

    rates: list[BrokerRateModel] = Field(min_length=1, max_length=10_000)
    auto_remove_throttle: AutoRemove = True
    timeout_ms: TimeoutMs = 10_000
    validate_only: bool = False
    cluster_id: ClusterId = None


class TopicReplicasModel(Strict):
    """A topic's throttled replicas."""

    topic: Topic
    leaders: Replicas
    followers: Replicas


class ReplicasRequestModel(Intent):
    """KIP-179, alterInterbrokerThrottledReplicas."""

    replicas: list[TopicReplicasModel] = Field(min_length=1, max_length=10_000)
    auto_remove_throttle: AutoRemove = True
    timeout_ms: TimeoutMs = 10_000
    validate_only: bool = False
    cluster_id: ClusterId = None


class AdoptRequestModel(Intent):
    """Take over the throttle of moves that somebody else started; null means all of them."""

    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )
    validate_only: bool = False
    cluster_id: ClusterId = None


class PriorRequestModel(Intent):
    """What becomes of settings whose value of before only this host remembers."""

    discard: bool = False
    """They stay as they are, and this host forgets them."""
    validate_only: bool = False
    cluster_id: ClusterId = None


class ShareModel(BaseModel):
    """What one operation wants of one setting."""

    operation: str
    who: str
    wants: str
    state: str = Field(description="`held`, `ending` or `left`")


class OwnedThrottleModel(BaseModel):
    """One rate of a broker, or one list of a topic, in which operations have a share."""

    setting: str
    broker: int | None
    topic: str | None
    value: str | None = Field(description="in force; null where it could not be read")
    source: str
    prior: str | None = Field(description="what comes back; null where it was never read")
    prior_source: str
    shares: list[ShareModel]
    drift: str = Field(description="`deleted`, `changed`, `widened`, `narrowed`, or empty")


class OwnedThrottlesModel(BaseModel):
    """Every setting in which an operation has a share; what is not here is not ours."""

    throttles: list[OwnedThrottleModel]
