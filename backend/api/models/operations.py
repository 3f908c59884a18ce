"""Operations: what they are, how they are steered, and what people say of them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import (
    PLAIN,
    ClusterId,
    Int32,
    Intent,
    PartitionModel,
    Strict,
    TimeoutMs,
    Who,
)


class ClaimModel(BaseModel):
    """Who steers an operation."""

    who: str
    since_ms: int
    reason: str


class NoteModel(BaseModel):
    """A remark on an operation."""

    who: str
    at_ms: int
    text: str


class OperationModel(BaseModel):
    """An operation."""

    id: str
    kind: str
    state: str
    started_ms: int
    ended_ms: int | None
    summary: str
    partitions: list[PartitionModel]
    throttle_bytes_per_s: int | None
    auto_remove_throttle: bool
    outcome: str
    details: dict[str, Any] = Field(description="rollback_plan and waiting_plan are Kafka's JSON")
    who: str
    reason: str
    actions: list[str] = Field(description="what can be done with it now")
    waiting: int = Field(description="of its partitions, how many wait for their turn")
    claim: ClaimModel | None = Field(description="who steers it; others have to take it over first")
    notes: list[NoteModel]


class OperationsModel(BaseModel):
    """The operations of this backend, newest first."""

    operations: list[OperationModel]


class SteerRequestModel(Intent):
    """Pause, resume, cancel or undo an operation."""

    preserve_throttles: bool = False
    validate_only: bool = False
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterId = None


class AbandonRequestModel(Intent):
    """End an operation although brokers that are gone for good still have its throttle."""

    brokers: list[Int32] = Field(min_length=1, max_length=10_000)
    validate_only: bool = False
    cluster_id: ClusterId = None


class ClaimRequestModel(Intent):
    """Say that one steers an operation; to take it over from somebody needs a reason."""

    take_over: bool = False
    cluster_id: ClusterId = None


class ReleaseRequestModel(Intent):
    """Say that one steers it no more."""

    cluster_id: ClusterId = None


class NoteRequestModel(Strict):
    """A remark on an operation, for everybody and for the audit."""

    text: str = Field(min_length=1, max_length=2_000, pattern=PLAIN)
    who: Who = ""
    cluster_id: ClusterId = None
