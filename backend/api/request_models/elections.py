"""Requests for elections of preferred leaders, and for unclean ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    WHOLE,
    ChangeModel,
    PartitionModel,
    TimeoutMs,
)
from kshunt.backend.limits import LIMITS

BatchSize = Annotated[
    int,
    Field(
        ge=1,
        le=200_000,
        description="how many elections a batch has; each batch ends before the next one begins",
    ),
    WHOLE,
]
PauseMs = Annotated[
    int, Field(ge=0, le=60_000, description="milliseconds between two batches"), WHOLE
]


class ElectionRequestModel(ChangeModel):
    """KIP-183; null partitions mean every partition of the cluster."""

    partitions: list[PartitionModel] | None = Field(max_length=LIMITS.partitions_per_request)
    batch_size: BatchSize | None = None
    pause_ms: PauseMs = 0
    timeout_ms: TimeoutMs = 10_000


class UncleanRequestModel(ChangeModel):
    """KIP-460, type UNCLEAN; never of every partition."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=1_000)
    confirm: list[str] = Field(
        default=[],
        max_length=1_000,
        description="exactly these partitions, each as topic-partition; not needed for a preview",
    )
    timeout_ms: TimeoutMs = 10_000
