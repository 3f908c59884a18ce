"""The request for the exact lag of replicas."""

from __future__ import annotations

from pydantic import Field

from kshunt.backend.api.request_models.base import PartitionModel, Strict


class StatusRequestModel(Strict):
    """KIP-179 early draft, replicaStatus."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=10_000)
