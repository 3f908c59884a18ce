"""Requests to set throttles, and to take them over."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    ChangeModel,
    Int32,
    PartitionModel,
    RateOrNone,
    Replicas,
    Strict,
    TimeoutMs,
    Topic,
)
from kshunt.backend.limits import LIMITS

AutoRemove = Annotated[
    bool,
    Field(
        description="kshunt removes the throttle when the moves that others started end; without "
        "such moves the throttle stays, and a note says so"
    ),
]


class BrokerRateModel(Strict):
    """A broker's throttled rates; null removes one."""

    broker: Int32
    leader_bytes_per_s: RateOrNone
    follower_bytes_per_s: RateOrNone


class RatesRequestModel(ChangeModel):
    """KIP-179, alterInterbrokerThrottledRates."""

    rates: list[BrokerRateModel] = Field(min_length=1, max_length=10_000)
    auto_remove_throttle: AutoRemove = True
    timeout_ms: TimeoutMs = 10_000


class TopicReplicasModel(Strict):
    """A topic's throttled replicas."""

    topic: Topic
    leaders: Replicas
    followers: Replicas


class ReplicasRequestModel(ChangeModel):
    """KIP-179, alterInterbrokerThrottledReplicas."""

    replicas: list[TopicReplicasModel] = Field(min_length=1, max_length=10_000)
    auto_remove_throttle: AutoRemove = True
    timeout_ms: TimeoutMs = 10_000


class AdoptRequestModel(ChangeModel):
    """Take over the throttle of moves that somebody else started; null means all of them."""

    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )


class PriorRequestModel(ChangeModel):
    """What to do with settings whose former value only this host remembers."""

    discard: bool = False
    """They stay as they are, and this host forgets them."""
