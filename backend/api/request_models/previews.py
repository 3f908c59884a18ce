"""Requests to see what an action would touch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kshunt.backend.api.request_models.base import Id, PartitionModel, PlanModel, RateOrNone, Strict
from kshunt.backend.api.request_models.throttles import BrokerRateModel, TopicReplicasModel
from kshunt.backend.limits import LIMITS


class PreviewRequestModel(Strict):
    """The action to preview; the needed fields depend on the action."""

    action: Literal["start", "cancel", "pause", "undo", "elect", "throttle"]
    plan: PlanModel | None = None
    throttle_bytes_per_s: RateOrNone = None
    operation_id: Id | None = None
    partitions: list[PartitionModel] | None = Field(
        default=None, max_length=LIMITS.partitions_per_request
    )
    rates: list[BrokerRateModel] = Field(default=[], max_length=10_000)
    replicas: list[TopicReplicasModel] = Field(default=[], max_length=10_000)
