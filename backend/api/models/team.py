"""Requests and answers of the routes for people who share a backend; see `routes.team`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from backend.api.models.base import ClusterId, Intent, Strict

PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters."""

Session = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Who = Annotated[
    str,
    Field(max_length=200, description="as ada@bastion; whom a credential names is not asked"),
]


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


class SettleRequestModel(Intent):
    """Reject a proposal, which needs a reason, or withdraw it."""

    cluster_id: ClusterId = None


class ApproveRequestModel(Intent):
    """Let what was proposed happen; with `preview`, only what was looked at."""

    cluster_id: ClusterId = None


class PresenceRequestModel(Strict):
    """A sign of life of a session, and what it looks at."""

    session: Session = Field(description="chosen at random; the same as long as the session lasts")
    who: Who = ""
    screen: str = Field(default="", max_length=40, pattern=PLAIN)
    selected: str = Field(default="", max_length=300, pattern=PLAIN)
    leaves: bool = Field(default=False, description="true: the session ends")


class PresentModel(BaseModel):
    """One session that is here."""

    session: str
    who: str
    screen: str
    selected: str
    since_ms: int


class PresenceModel(BaseModel):
    """Who is here, those that came first standing first."""

    you: str = Field(description="what the backend calls you; empty where it asks for nothing")
    present: list[PresentModel]


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
