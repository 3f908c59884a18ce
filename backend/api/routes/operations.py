"""The routes of operations: what they are, how they are steered, and what people say of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core import two_person_changes
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.request_values import timeout_s_of
from kshunt.backend.api.http import problems
from kshunt.backend.api.http.paths import ID_PATTERN
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.base import Intent
from kshunt.backend.api.request_models.operations import (
    AbandonRequestModel,
    ClaimRequestModel,
    NoteRequestModel,
    ReleaseRequestModel,
    SteerRequestModel,
)
from kshunt.backend.api.request_models.shrinks import ConfirmRequestModel
from kshunt.backend.api.schema.operations import Operations
from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.offload import offload

OperationId = Annotated[
    str, Path(min_length=1, max_length=64, json_schema_extra={"pattern": ID_PATTERN})
]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _reads(app, backend)
    _control(app, backend)
    _confirming(app, backend)
    _team(app, backend)


def _reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/operations", Operations)
    async def operations() -> Any:
        """The operations of this backend, newest first."""
        known = tuple(backend.registry)
        size = sum(len(operation.partitions) for operation in known)
        return await offload(size, lambda: Operations(tuple(map(backend.shown, known))))

    @views.get("/v1/operations/{operation_id}", Operation)
    async def operation(operation_id: OperationId) -> Any:
        """One operation."""
        found = backend.registry.get(operation_id)
        if found is None:
            return problems.problem(
                404, "No such operation", "This backend has no operation with that id."
            )
        return await offload(len(found.partitions), backend.shown, found)


def _control(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    control, previews = backend.operation_control, backend.previews

    @changes.post("/v1/operations/{operation_id}/pause", ChangeAnswer)
    async def pause(operation_id: OperationId, body: SteerRequestModel) -> Any:
        """Hold the operation's copies; nothing is cancelled, and no copied data is lost."""
        change = await _change(backend, operation_id, body)
        if change.preview:
            await previews.check(change.preview, previews.pause(operation_id))
        return await control.pause(operation_id, change)

    @changes.post("/v1/operations/{operation_id}/resume", ChangeAnswer)
    async def resume(operation_id: OperationId, body: SteerRequestModel) -> Any:
        """Continue an operation that was paused."""
        change = await _change(backend, operation_id, body)
        return await control.resume(operation_id, change)

    @changes.post("/v1/operations/{operation_id}/cancel", ChangeAnswer)
    async def cancel(operation_id: OperationId, body: SteerRequestModel) -> Any:
        """Return every partition of the operation that still moves."""
        change = await _change(backend, operation_id, body)
        if change.preview:
            wanted = previews.partitions_of(operation_id)
            await previews.check(change.preview, await previews.cancel(wanted))
        return await control.cancel(
            operation_id,
            change,
            preserve_throttles=body.preserve_throttles,
            timeout_s=timeout_s_of(body.timeout_ms),
        )

    @changes.post("/v1/operations/{operation_id}/undo", ChangeAnswer)
    async def undo(operation_id: OperationId, body: SteerRequestModel) -> Any:
        """Move back the partitions that an ended operation moved."""
        change = await _change(backend, operation_id, body)
        if change.preview:
            await previews.check(change.preview, await previews.undo(operation_id))
        timeout_s = timeout_s_of(body.timeout_ms)
        return await control.undo(operation_id, change, timeout_s=timeout_s)

    @changes.post("/v1/operations/{operation_id}/abandon", ChangeAnswer)
    async def abandon(operation_id: OperationId, body: AbandonRequestModel) -> Any:
        """End an operation although brokers that are gone for good still have its throttle."""
        change = await _change(backend, operation_id, body)
        return await control.abandon(operation_id, body.brokers, change)


async def _change(backend: Backend, operation_id: str, body: Intent) -> Change:
    """The change that is asked for. Rejects it if this backend is not active, or if somebody else
    has claimed the operation."""
    change = await require_active(backend, body)
    backend.claims.require((operation_id,), change.requester)
    return change


def _confirming(app: FastAPI, backend: Backend) -> None:
    admins = Routes(app, Role.ADMIN)

    @admins.post("/v1/operations/{operation_id}/confirm", ChangeAnswer, also={202: ShownProposal})
    async def confirm(operation_id: OperationId, body: ConfirmRequestModel) -> Any:
        """Confirm the point of no return of a shrink, by the topic's own name."""
        return await two_person_changes.request_change(
            backend, two_person_changes.CUT_OVER, operation_id, body
        )


def _team(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    claims = backend.claims

    async def shown(operation: Operation) -> Operation:
        return await offload(len(operation.partitions), backend.shown, operation)

    @changes.post("/v1/operations/{operation_id}/claim", Operation)
    async def claim(operation_id: OperationId, body: ClaimRequestModel) -> Any:
        """Claim an operation; other people must take it over before they change it."""
        change = await require_active(backend, body)
        claimed = await claims.claim(operation_id, change.requester, take_over=body.take_over)
        return await shown(claimed)

    @changes.post("/v1/operations/{operation_id}/release", Operation)
    async def release(operation_id: OperationId, body: ReleaseRequestModel) -> Any:
        """Release the claim on an operation."""
        change = await require_active(backend, body)
        return await shown(await claims.release(operation_id, change.requester))

    @changes.post("/v1/operations/{operation_id}/notes", Operation)
    async def note(operation_id: OperationId, body: NoteRequestModel) -> Any:
        """Add a note to an operation, for other operators and for the audit."""
        change = await require_active(backend, body)
        return await shown(await claims.note(operation_id, body.text, change.requester))
