"""Requests about operations: how they are steered, and what people say of them."""

from __future__ import annotations

from pydantic import Field

from kshunt.backend.api.request_models.base import (
    PLAIN,
    ChangeModel,
    ClusterId,
    Int32,
    Intent,
    Strict,
    TimeoutMs,
    Who,
)


class SteerRequestModel(ChangeModel):
    """Pause, resume, cancel or undo an operation."""

    preserve_throttles: bool = False
    timeout_ms: TimeoutMs = 10_000


class AbandonRequestModel(ChangeModel):
    """End an operation although brokers that are gone for good still have its throttle."""

    brokers: list[Int32] = Field(min_length=1, max_length=10_000)


class ClaimRequestModel(Intent):
    """Claim an operation; to take it over from somebody needs a reason."""

    take_over: bool = False


class ReleaseRequestModel(Intent):
    """Release a claim."""


class NoteRequestModel(Strict):
    """A note on an operation, for everybody and for the audit."""

    text: str = Field(min_length=1, max_length=2_000, pattern=PLAIN)
    who: Who = ""
    cluster_id: ClusterId = None
