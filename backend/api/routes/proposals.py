"""The routes of changes that take two people."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.two_person_changes import TwoPersonChange, person_of
from kshunt.backend.api.http.paths import ID_PATTERN
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.proposals import ApproveRequestModel, DecisionRequestModel
from kshunt.backend.api.schema.proposals import ApprovedProposal, Proposals
from kshunt.backend.domain.operations.approval import (
    Person,
    ProposalEffect,
    ProposedChange,
    ShownProposal,
)

ProposalId = Annotated[
    str, Path(min_length=1, max_length=64, json_schema_extra={"pattern": ID_PATTERN})
]
DECIDES: Final = Role.ADMIN
"""Whatever can be proposed takes it."""


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _proposals(app, backend)
    _decisions(app, backend)


def _me() -> Person:
    return person_of(CURRENT_CALLER.get())


def _shown(backend: Backend, proposal: ProposedChange) -> ShownProposal:
    shown = ShownProposal.of(proposal, _me(), backend.clock.now_ms())
    # What a role does not allow is not offered either.
    return shown if CURRENT_CALLER.get().role.may(DECIDES) else replace(shown, actions=())


def _proposals(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    approvals = backend.approvals

    @views.get("/v1/proposals", Proposals)
    async def listed() -> Any:
        """Changes that need a second person: waiting proposals, and the results of others."""
        return Proposals(tuple(_shown(backend, one) for one in approvals.listed()))

    @views.get("/v1/proposals/{proposal_id}/preview", ProposalEffect)
    async def preview(proposal_id: ProposalId) -> Any:
        """The effect of a proposal on the cluster as it is; nothing is changed."""
        deed = TwoPersonChange.of(backend, approvals.get(proposal_id), _me())
        return await approvals.foresee(proposal_id, deed)


def _decisions(app: FastAPI, backend: Backend) -> None:
    admins = Routes(app, DECIDES)
    approvals = backend.approvals

    @admins.post("/v1/proposals/{proposal_id}/approve", ApprovedProposal)
    async def approve(proposal_id: ProposalId, body: ApproveRequestModel) -> Any:
        """Carry out another person's proposal, once; the answer is that of its request."""
        await require_active(backend, body)
        deed = TwoPersonChange.of(backend, approvals.get(proposal_id), _me())
        proposal, done = await approvals.approve(
            proposal_id, _me(), body.reason, body.preview, deed
        )
        return ApprovedProposal(_shown(backend, proposal), dict(done.answer))

    @admins.post("/v1/proposals/{proposal_id}/reject", ShownProposal)
    async def reject(proposal_id: ProposalId, body: DecisionRequestModel) -> Any:
        """Reject a change that another person proposed, with a reason."""
        await require_active(backend, body)
        return _shown(backend, await approvals.reject(proposal_id, _me(), body.reason))

    @admins.post("/v1/proposals/{proposal_id}/withdraw", ShownProposal)
    async def withdraw(proposal_id: ProposalId, body: DecisionRequestModel) -> Any:
        """Withdraw your own proposal."""
        await require_active(backend, body)
        return _shown(backend, await approvals.withdraw(proposal_id, _me(), body.reason))
