"""The routes for people who share a backend: proposals, claims, notes, and who is here."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import FastAPI, Path

from backend.access.calling import CALLER
from backend.access.roles import Role
from backend.api import documents
from backend.api import team_models as models
from backend.api.backend import Backend
from backend.api.guarded import GuardedDeed, person_of
from backend.api.models import OperationModel
from backend.api.paths import ID_PATTERN
from backend.api.requests import asker_of, meant_for
from backend.api.routes import Routes
from backend.api.steering import OperationId
from backend.api.team_documents import Json, foreseen_json, presence_json, proposal_json
from backend.aside import aside
from backend.domain.approval import Person, ProposedChange
from backend.domain.operation import Asker, Operation
from backend.domain.team import Presence

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
    return person_of(CALLER.get())


def _shown(backend: Backend, proposal: ProposedChange) -> Json:
    document = proposal_json(proposal, _me(), backend.clock.now_ms())
    # What a role does not allow is not offered either.
    return document if CALLER.get().role.may(SETTLES) else {**document, "actions": []}


def _proposals(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    approvals = backend.approvals

    @views.get("/v1/proposals", response_model=models.ProposalsModel)
    async def listed() -> Any:
        """Changes that take two people: those that wait, and what became of others."""
        return {"proposals": [_shown(backend, one) for one in approvals.listed()]}

    @views.get("/v1/proposals/{proposal_id}/preview", response_model=models.ForeseenModel)
    async def preview(proposal_id: ProposalId) -> Any:
        """What a proposal would do, by the cluster as it is; nothing is changed."""
        deed = GuardedDeed.of(backend, approvals.get(proposal_id), _me())
        return foreseen_json(await approvals.foresee(proposal_id, deed))


def _settling(app: FastAPI, backend: Backend) -> None:
    admins = Routes(app, SETTLES)
    approvals = backend.approvals

    @admins.post("/v1/proposals/{proposal_id}/approve", response_model=models.ApprovedModel)
    async def approve(proposal_id: ProposalId, body: models.ApproveRequestModel) -> Any:
        """Let what another one proposed happen, once; the answer is that of its request."""
        await _prepare(backend, body.cluster_id)
        deed = GuardedDeed.of(backend, approvals.get(proposal_id), _me())
        proposal, done = await approvals.approve(
            proposal_id, _me(), body.reason, body.preview, deed
        )
        return {"proposal": _shown(backend, proposal), "answer": dict(done.answer)}

    @admins.post("/v1/proposals/{proposal_id}/reject", response_model=models.ProposalModel)
    async def reject(proposal_id: ProposalId, body: models.SettleRequestModel) -> Any:
        """Say why what another one proposed shall not happen."""
        await _prepare(backend, body.cluster_id)
        return _shown(backend, await approvals.reject(proposal_id, _me(), body.reason))

    @admins.post("/v1/proposals/{proposal_id}/withdraw", response_model=models.ProposalModel)
    async def withdraw(proposal_id: ProposalId, body: models.SettleRequestModel) -> Any:
        """Take back what one proposed."""
        await _prepare(backend, body.cluster_id)
        return _shown(backend, await approvals.withdraw(proposal_id, _me(), body.reason))


def _operations(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    claims = backend.claims

    async def shown(operation: Operation) -> Json:
        def document() -> Json:
            return documents.operation_json(backend.shown(operation))

        return await aside(len(operation.partitions), document)

    @changes.post("/v1/operations/{operation_id}/claim", response_model=OperationModel)
    async def claim(operation_id: OperationId, body: models.ClaimRequestModel) -> Any:
        """Say that one steers an operation; others have to take it over before they do."""
        await _prepare(backend, body.cluster_id)
        asker = asker_of(body)
        return await shown(await claims.claim(operation_id, asker, take_over=body.take_over))

    @changes.post("/v1/operations/{operation_id}/release", response_model=OperationModel)
    async def release(operation_id: OperationId, body: models.ReleaseRequestModel) -> Any:
        """Say that one steers an operation no more."""
        await _prepare(backend, body.cluster_id)
        return await shown(await claims.release(operation_id, asker_of(body)))

    @changes.post("/v1/operations/{operation_id}/notes", response_model=OperationModel)
    async def note(operation_id: OperationId, body: models.NoteRequestModel) -> Any:
        """Remark on an operation, for everybody who looks at it and for the audit."""
        await _prepare(backend, body.cluster_id)
        asker = Asker(CALLER.get().name or body.who)
        return await shown(await claims.note(operation_id, body.text, asker))


def _presence(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    board = backend.presence

    def here() -> Json:
        return presence_json(Presence(board.listed(), CALLER.get().name))

    @views.get("/v1/presence", response_model=models.PresenceModel)
    async def present() -> Any:
        """Who is connected to this backend, and what they look at."""
        return here()

    @views.post("/v1/presence", response_model=models.PresenceModel)
    async def seen(body: models.PresenceRequestModel) -> Any:
        """Say that one is here, every few seconds; who is silent for 45 is forgotten."""
        caller = CALLER.get()
        if body.leaves:
            board.left(caller, body.session)
        else:
            board.seen(caller, body.session, body.who, body.screen, body.selected)
        return here()


async def _prepare(backend: Backend, cluster_id: str | None) -> None:
    await meant_for(backend, cluster_id)
    await backend.ready()
