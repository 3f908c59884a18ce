"""Changes that take two people."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from kshunt.backend.api.models.base import ClusterId, Intent


class ProposalModel(BaseModel):
    """A change that takes two people."""

    id: str
    action: str = Field(description="unclean_election, shrink, cut_over or delete_partitions")
    subject: str = Field(description="the topic or operation of the request's path, or empty")
    summary: str
    state: Literal["waiting", "approved", "done", "failed", "rejected", "withdrawn", "expired"]
    who: str
    reason: str
    proposed_ms: int
    expires_ms: int
    foreseen: list[str] = Field(description="what it would have done when it was proposed")
    settled_by: str
    settled_reason: str
    settled_ms: int | None
    operation_id: str
    outcome: str
    actions: list[str] = Field(description="what you may do: approve and reject, or withdraw")


PROPOSED: dict[int | str, dict[str, Any]] = {
    202: {"model": ProposalModel, "description": "It takes two people: nothing was changed yet."}
}
"""What a route answers besides that may record a proposal instead."""


class ProposalsModel(BaseModel):
    """All proposals that are remembered, newest first."""

    proposals: list[ProposalModel]


class ForeseenModel(BaseModel):
    """What a proposal would do, by the cluster as it is."""

    lines: list[str]
    notes: list[str]
    fingerprint: str
    changed: bool = Field(description="whether that is something else than when it was proposed")


class ApprovedModel(BaseModel):
    """A proposal that was carried out, and the answer that its request would have had."""

    proposal: ProposalModel
    answer: dict[str, Any]


class SettleRequestModel(Intent):
    """Reject a proposal, which needs a reason, or withdraw it."""

    cluster_id: ClusterId = None


class ApproveRequestModel(Intent):
    """Let what was proposed happen; with `preview`, only what was looked at."""

    cluster_id: ClusterId = None
