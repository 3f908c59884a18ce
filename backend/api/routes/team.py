"""The routes for people who share a backend: proposals, claims, notes, and who is here."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import FastAPI, Path

from backend.access.request_context import CURRENT_CALLER
from backend.access.roles import Role
from backend.api.http.paths import ID_PATTERN
from backend.api.http.route_roles import Routes
from backend.api.models.operations import (
    ClaimRequestModel,
    NoteRequestModel,
    OperationModel,
    ReleaseRequestModel,
)
from backend.api.models.presence import PresenceModel, PresenceRequestModel
from backend.api.models.proposals import (
    ApprovedModel,
    ApproveRequestModel,
    ForeseenModel,
    ProposalModel,
    ProposalsModel,
    SettleRequestModel,
)
from backend.api.routes.operations import OperationId
from backend.api.schema.base import Json
from backend.api.schema.operations import operation_json
from backend.api.schema.presence import presence_json
from backend.api.schema.proposals import foreseen_json, proposal_json
from backend.api.service.backend import Backend
from backend.api.service.request_values import asker_of, refuse_other_cluster
from backend.api.service.two_person_changes import TwoPersonChange, person_of
from backend.domain.operations.approval import Person, ProposedChange
from backend.domain.operations.operation import Operation, Requester
from backend.domain.operations.team import Presence
from backend.offload import aside

ProposalId = Annotated[
    str, Path(min_length=1, max_length=64, json_schema_extra={"pattern": ID_PATTERN})
]
SETTLES: Final = Role.ADMIN
"""Whatever can be proposed takes it."""


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _proposals(app, backend)
    _settling(app, backend)
    _operations(app, backend)
    _presence(app, backend)


def _me() -> Person:
    return person_of(CURRENT_CALLER.get())


def _shown(backend: Backend, proposal: ProposedChange) -> Json:
    document = proposal_json(proposal, _me(), backend.clock.now_ms())
    # What a role does not allow is not offered either.
    return document if CURRENT_CALLER.get().role.may(SETTLES) else {**document, "actions": []}


def _proposals(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    approvals = backend.approvals

    @views.get("/v1/proposals", response_model=ProposalsModel)
    async def listed() -> Any:
        """Changes that take two people: those that wait, and what became of others."""
        return {"proposals": [_shown(backend, one) for one in approvals.listed()]}

    @views.get("/v1/proposals/{proposal_id}/preview", response_model=ForeseenModel)
    async def preview(proposal_id: ProposalId) -> Any:
        """What a proposal would do, by the cluster as it is; nothing is changed."""
        deed = TwoPersonChange.of(backend, approvals.get(proposal_id), _me())
        return foreseen_json(await approvals.foresee(proposal_id, deed))


def _settling(app: FastAPI, backend: Backend) -> None:
    admins = Routes(app, SETTLES)
    approvals = backend.approvals

    @admins.post("/v1/proposals/{proposal_id}/approve", response_model=ApprovedModel)
    async def approve(proposal_id: ProposalId, body: ApproveRequestModel) -> Any:
        """Let what another one proposed happen, once; the answer is that of its request."""
        await _prepare(backend, body.cluster_id)
        deed = TwoPersonChange.of(backend, approvals.get(proposal_id), _me())
        proposal, done = await approvals.approve(
            proposal_id, _me(), body.reason, body.preview, deed
        )
        return {"proposal": _shown(backend, proposal), "answer": dict(done.answer)}

    @admins.post("/v1/proposals/{proposal_id}/reject", response_model=ProposalModel)
    async def reject(proposal_id: ProposalId, body: SettleRequestModel) -> Any:
        """Say why what another one proposed shall not happen."""
        await _prepare(backend, body.cluster_id)
        return _shown(backend, await approvals.reject(proposal_id, _me(), body.reason))

    @admins.post("/v1/proposals/{proposal_id}/withdraw", response_model=ProposalModel)
    async def withdraw(proposal_id: ProposalId, body: SettleRequestModel) -> Any:
        """Take back what one proposed."""
        await _prepare(backend, body.cluster_id)
        return _shown(backend, await approvals.withdraw(proposal_id, _me(), body.reason))


def _operations(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    claims = backend.claims

    async def shown(operation: Operation) -> Json:
        def document() -> Json:
            return operation_json(backend.shown(operation))

        return await aside(len(operation.partitions), document)

    @changes.post("/v1/operations/{operation_id}/claim", response_model=OperationModel)
    async def claim(operation_id: OperationId, body: ClaimRequestModel) -> Any:
        """Say that one steers an operation; others have to take it over before they do."""
        await _prepare(backend, body.cluster_id)
        asker = asker_of(body)
        return await shown(await claims.claim(operation_id, asker, take_over=body.take_over))

    @changes.post("/v1/operations/{operation_id}/release", response_model=OperationModel)
    async def release(operation_id: OperationId, body: ReleaseRequestModel) -> Any:
        """Say that one steers an operation no more."""
        await _prepare(backend, body.cluster_id)
        return await shown(await claims.release(operation_id, asker_of(body)))

    @changes.post("/v1/operations/{operation_id}/notes", response_model=OperationModel)
    async def note(operation_id: OperationId, body: NoteRequestModel) -> Any:
        """Remark on an operation, for everybody who looks at it and for the audit."""
        await _prepare(backend, body.cluster_id)
        asker = Requester(CURRENT_CALLER.get().name or body.who)
        return await shown(await claims.note(operation_id, body.text, asker))


def _presence(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    board = backend.presence

    def here() -> Json:
        return presence_json(Presence(board.listed(), CURRENT_CALLER.get().name))

    @views.get("/v1/presence", response_model=PresenceModel)
    async def present() -> Any:
        """Who is connected to this backend, and what they look at."""
        return here()

    @views.post("/v1/presence", response_model=PresenceModel)
    async def seen(body: PresenceRequestModel) -> Any:
        """Say that one is here, every few seconds; who is silent for 45 is forgotten."""
        caller = CURRENT_CALLER.get()
        if body.leaves:
            board.left(caller, body.session)
        else:
            board.seen(caller, body.session, body.who, body.screen, body.selected)
        return here()


async def _prepare(backend: Backend, cluster_id: str | None) -> None:
    await refuse_other_cluster(backend, cluster_id)
    await backend.ready()
