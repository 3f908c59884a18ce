"""What an action would touch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import Id, PartitionModel, PlanModel, RateOrNone, Strict
from kshunt.backend.api.models.throttles import BrokerRateModel, TopicReplicasModel
from kshunt.backend.settings import LIMITS


class PreviewRequestModel(Strict):
    """What is to be looked at; which fields are needed depends on the action."""

    action: Literal["start", "cancel", "pause", "undo", "elect", "throttle"]
    plan: PlanModel | None = None
    throttle_bytes_per_s: RateOrNone = None
    operation_id: Id | None = None
    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )
    rates: list[BrokerRateModel] = Field(default=[], max_length=10_000)
    replicas: list[TopicReplicasModel] = Field(default=[], max_length=10_000)


class BlastRadiusModel(BaseModel):
    """What an action would touch."""

    action: str
    sentence: str
    brokers: list[int]
    topics: list[str]
    partitions: int
    copy_bytes: int
    unknown_sizes: int
    throttles_set: list[str]
    throttles_lifted: list[str]
    leaders_moving: int
    at_min_isr: int
    under_min_isr: int
    warnings: list[str]
    fingerprint: str
