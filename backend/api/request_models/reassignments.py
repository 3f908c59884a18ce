"""Requests for reassignments: started, cancelled, looked at."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    WHOLE,
    ChangeModel,
    EpochMs,
    Int32,
    PartitionModel,
    PlanModel,
    RateOrNone,
    Strict,
    TimeoutMs,
    Topic,
)
from kshunt.backend.limits import LIMITS


class PlanModelRequest(Strict):
    """A plan to check."""

    plan: PlanModel


class CapsModel(Strict):
    """Moves in flight, those that others started included."""

    per_broker: Annotated[int, Field(ge=1, le=10_000), WHOLE]
    in_cluster: Annotated[int, Field(ge=1, le=200_000), WHOLE]
    smallest_first: bool = False


class ReassignRequestModel(PlanModelRequest, ChangeModel):
    """KIP-179, reassignPartitions."""

    throttle_bytes_per_s: RateOrNone = None
    log_dirs_throttle_bytes_per_s: RateOrNone = None
    auto_remove_throttle: bool = True
    additional: bool = False
    caps: CapsModel | None = Field(
        default=None, description="null: all moves start at the same time"
    )
    allow_replication_factor_change: bool = True
    all_or_nothing: bool = Field(
        default=False, description="a partition that cannot be moved stops the whole plan"
    )
    timeout_ms: TimeoutMs = 10_000
    deadline_ms: EpochMs | None = Field(
        default=None,
        description="the moment by which the move is to be done; kshunt reports when it no longer "
        "holds",
    )


class CancelRequestModel(ChangeModel):
    """Partitions to return to their original replicas."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=LIMITS.partitions_per_request)
    preserve_throttles: bool = False
    timeout_ms: TimeoutMs = 10_000


class VerifyRequestModel(PlanModelRequest):
    """A plan to verify; its throttles are removed when it is done."""

    preserve_throttles: bool = False


class GenerateRequestModel(Strict):
    """Topics to spread over brokers."""

    topics: list[Topic] = Field(min_length=1, max_length=10_000)
    brokers: list[Int32] = Field(min_length=1, max_length=10_000)
    rack_aware: bool = True
