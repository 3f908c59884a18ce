"""Replicas, and their exact lag."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import PartitionModel, Strict
from kshunt.backend.api.models.stuck_causes import CauseKey, RateNeedModel

ModeKey = Literal["readwrite", "readonly", "none"]
"""A `PartitionMode.key`."""


class ReplicaModel(BaseModel):
    """One replica; null means unknown, which is never 0."""

    topic: str
    partition: int
    broker: int
    position: int
    leader: int | None
    in_isr: bool
    adding: bool
    removing: bool
    leader_throttled: bool
    follower_throttled: bool
    status: Literal["in_sync", "behind", "lag_unknown", "offline"]
    log_end_offset: int | None
    lag_messages: int | None
    size_bytes: int | None
    lag_bytes: int | None
    log_dir: str | None
    catch_up_messages_per_s: float | None
    catch_up_bytes_per_s: float | None
    fetched_bytes_per_s: float | None
    eta_s: float | None
    never: bool = Field(description="true where it falls behind faster than it catches up")
    sampled_ms: int | None
    stale: bool
    mode: ModeKey = Field(description="of the partition (KIP-694); readwrite is the usual one")
    deletes_ms: int | None = Field(description="when the data of a readonly partition goes")
    stuck: bool = Field(description="true where somebody must act before it can arrive")
    cause: CauseKey | None = Field(description="why it does not advance; null where it does")
    reason: str | None
    action: str | None = Field(description="what to do next; empty where nothing is to be done")
    rates: list[RateNeedModel] = Field(description="the throttles that are too low")


class ReplicasModel(BaseModel):
    """A page of replicas."""

    version: int
    taken_ms: int
    matching: int
    replicas: list[ReplicaModel]


class StatusRequestModel(Strict):
    """KIP-179 early draft, replicaStatus."""

    partitions: list[PartitionModel] = Field(min_length=1, max_length=10_000)


class ReplicaStatusModel(BaseModel):
    """KIP-179 early draft, ReplicaStatus."""

    topic: str
    partition: int
    broker: int = Field(description="-1 where there is no such partition")
    in_isr: bool = Field(description="level with its leader, as replica.lag.time.max.ms has it")
    lag_messages: int | None
    status_time_ms: int | None
    error_code: int
    error_name: str
    message: str


class StatusesModel(BaseModel):
    """The lag of every replica that was asked for."""

    replicas: list[ReplicaStatusModel]
