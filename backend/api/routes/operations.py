"""The routes that steer operations and mend throttles, and those that say who did what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Response

from backend.access.roles import Role
from backend.admin.port.cluster_admin import ReplicaLag
from backend.api.http.paths import ID_PATTERN
from backend.api.http.route_roles import Routes
from backend.api.models import operations as models
from backend.api.models.base import ChangeModel
from backend.api.schema import documents
from backend.api.service import engine_json
from backend.api.service.backend import Backend
from backend.api.service.request_values import (
    asker_of,
    once,
    partitions_of,
    plan_of,
    rates_of,
    refuse_other_cluster,
    replicas_of,
    timeout_s_of,
)
from backend.domain.operations.operation import Requester
from backend.domain.reassignment.answers import ChangeAnswer
from backend.domain.topics.alteration import AlteredTopic
from backend.errors import BadInput
from backend.offload import aside
from backend.operations.audit.lines import audit_json, read_audit, selected
from backend.operations.audit.report import as_markdown
from backend.operations.core.journal_audit import discarded_line
from backend.operations.journal.audit_chain import verified
from backend.operations.journal.second_copy import path_of, read_file
from backend.operations.review.blast_radius import Request
from backend.operations.throttles.repair import still_there
from backend.settings import LIMITS

OperationId = Annotated[
    str, Path(min_length=1, max_length=64, json_schema_extra={"pattern": ID_PATTERN})
]
MARKDOWN = "text/markdown; charset=utf-8"


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _standing(app, backend)
    _operations(app, backend)
    _throttles(app, backend)
    _prior(app, backend)
    _previews(app, backend)
    _topics(app, backend)


def _standing(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/backend", response_model=models.BackendModel)
    async def standing() -> Any:
        """Whether this backend acts, or who does, and what of the journal cannot be read."""
        known = backend.registry.known
        unreadable = {**known.unreadable, **known.aside}
        return engine_json.backend_json(
            backend.seat,
            unreadable,
            backend.admin.not_offered,
            in_zookeeper=bool(backend.settings.zookeeper),
            remarks=backend.second_copy.remarks,
        )

    @views.get(
        "/v1/audit",
        response_model=None,
        responses={200: {"model": models.AuditModel, "content": {"text/markdown": {}}}},
    )
    async def audit(
        since_ms: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        until_ms: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        operation: Annotated[str, Query(max_length=64)] = "",
        format: Annotated[str, Query(pattern="^(json|markdown)$")] = "json",
    ) -> Any:
        """Who asked for what, when and why, and what came of it; newest last."""
        rows = selected(
            read_audit(backend.seat.state),
            since_ms=since_ms,
            until_ms=until_ms,
            operation_id=operation,
        )
        cluster_id = (await backend.snapshot()).cluster_id
        if format == "markdown":
            return Response(as_markdown(rows, cluster_id), media_type=MARKDOWN)
        return audit_json(rows, cluster_id)

    @views.get("/v1/audit/verification", response_model=models.VerificationModel)
    async def verification() -> Any:
        """Whether lines of the audit were changed, removed or added since they were written."""
        state = backend.seat.state
        cluster_id = (await backend.snapshot()).cluster_id
        known = read_file(path_of(cluster_id), cluster_id, backend.keys)
        found = verified(state, "" if known is None else known.newest)
        return {"lines": found.lines, "problems": list(found.problems)}


def _operations(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    steering, previews = backend.steering, backend.previews

    @changes.post("/v1/operations/{operation_id}/pause", response_model=ChangeModel)
    async def pause(operation_id: OperationId, body: models.SteerRequestModel) -> Any:
        """Hold the operation's copies; nothing is cancelled, and no byte is lost."""
        asker = await _asker(backend, operation_id, body)
        if body.preview:
            await previews.check(body.preview, previews.pause(operation_id))
        answer = await steering.pause(operation_id, validate_only=body.validate_only, asker=asker)
        return documents.change_json(answer)

    @changes.post("/v1/operations/{operation_id}/resume", response_model=ChangeModel)
    async def resume(operation_id: OperationId, body: models.SteerRequestModel) -> Any:
        """Go on with an operation that was paused."""
        asker = await _asker(backend, operation_id, body)
        answer = await steering.resume(operation_id, validate_only=body.validate_only, asker=asker)
        return documents.change_json(answer)

    @changes.post("/v1/operations/{operation_id}/cancel", response_model=ChangeModel)
    async def cancel(operation_id: OperationId, body: models.SteerRequestModel) -> Any:
        """Return every partition of the operation that still moves."""
        asker = await _asker(backend, operation_id, body)
        if body.preview:
            wanted = previews.partitions_of(operation_id)
            await previews.check(body.preview, await previews.cancel(wanted))
        answer = await steering.cancel(
            operation_id,
            preserve_throttles=body.preserve_throttles,
            validate_only=body.validate_only,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker,
        )
        return documents.change_json(answer)

    @changes.post("/v1/operations/{operation_id}/undo", response_model=ChangeModel)
    async def undo(operation_id: OperationId, body: models.SteerRequestModel) -> Any:
        """Move back what an operation that has ended moved."""
        asker = await _asker(backend, operation_id, body)
        if body.preview:
            await previews.check(body.preview, await previews.undo(operation_id))
        answer = await steering.undo(
            operation_id,
            validate_only=body.validate_only,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker,
        )
        return documents.change_json(answer)

    @changes.post("/v1/operations/{operation_id}/abandon", response_model=ChangeModel)
    async def abandon(operation_id: OperationId, body: models.AbandonRequestModel) -> Any:
        """End an operation although brokers that are gone for good still have its throttle."""
        asker = await _asker(backend, operation_id, body)
        answer = await steering.abandon(
            operation_id, body.brokers, validate_only=body.validate_only, asker=asker
        )
        return documents.change_json(answer)


def _throttles(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    changes = Routes(app, Role.OPERATOR)
    mending = backend.mending

    @views.get("/v1/drift", response_model=models.DriftsModel)
    async def drift() -> Any:
        """What somebody else did to the throttles of running operations."""
        return {"drift": [engine_json.drift_json(one) for one in await mending.drift()]}

    @views.get("/v1/throttles/owned", response_model=models.OwnedThrottlesModel)
    async def owned() -> Any:
        """Whose each throttle is, and what comes back once it has come off."""
        return {"throttles": [asdict(one) for one in await mending.owned()]}

    @views.get("/v1/orphans", response_model=models.OrphansModel)
    async def orphans() -> Any:
        """Rates and listed replicas that no move justifies, with their likely origin."""
        return {"orphans": [engine_json.orphan_json(one) for one in await mending.orphans()]}

    async def settled(body: models.MendRequestModel, *, ours: bool) -> Any:
        await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
        asker = asker_of(body)
        shown = still_there(await mending.drift(), body.ids)
        backend.claims.require((id for one in shown.values() for id in one.operations), asker)
        answer = await mending.settle_drift(
            body.ids, ours=ours, validate_only=body.validate_only, asker=asker
        )
        return documents.change_json(answer)

    @changes.post("/v1/drift/reapply", response_model=ChangeModel)
    async def reapply(body: models.MendRequestModel) -> Any:
        """Put our throttle back where somebody else changed it."""
        return await settled(body, ours=True)

    @changes.post("/v1/drift/accept", response_model=ChangeModel)
    async def accept(body: models.MendRequestModel) -> Any:
        """Keep what somebody else set; it stays when the operation ends."""
        return await settled(body, ours=False)

    @changes.post("/v1/orphans/remove", response_model=ChangeModel)
    async def remove(body: models.MendRequestModel) -> Any:
        """Take off orphan throttles, as far as they still are."""
        await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
        answer = await mending.remove_orphans(
            body.ids, validate_only=body.validate_only, asker=asker_of(body)
        )
        return documents.change_json(answer)

    @changes.post("/v1/throttles/adopt", response_model=ChangeModel)
    async def adopt(body: models.AdoptRequestModel) -> Any:
        """Take over the throttle of moves that somebody else started, so that it comes off."""
        await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
        answer = await backend.steering.adopt(
            None if body.partitions is None else partitions_of(body.partitions),
            validate_only=body.validate_only,
            asker=asker_of(body),
        )
        return documents.change_json(answer)


def _prior(app: FastAPI, backend: Backend) -> None:
    views, admins = Routes(app, Role.VIEWER), Routes(app, Role.ADMIN)

    @views.get("/v1/throttles/prior", response_model=models.OwnedThrottlesModel)
    async def prior() -> Any:
        """Settings whose value of before only this host remembers, as the journal was lost."""
        found = await backend.mending.prior(backend.second_copy.lost)
        return {"throttles": [asdict(one) for one in found]}

    @admins.post("/v1/throttles/prior", response_model=ChangeModel)
    async def settle_prior(body: models.PriorRequestModel) -> Any:
        """Bring them back, as far as they are still what kshunt wrote; or discard them."""
        await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
        copy = backend.second_copy
        answer = ChangeAnswer(body.validate_only, None, ())
        if not body.discard:
            answer = await backend.mending.restore_prior(
                copy.lost, validate_only=body.validate_only, asker=asker_of(body)
            )
        elif copy.lost and not body.validate_only:
            await backend.registry.tell(discarded_line(len(copy.lost), asker_of(body)))
        if not body.validate_only:
            copy.forget_lost()
        return documents.change_json(answer)


def _previews(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.post(
        "/v1/preview", response_model=models.BlastRadiusModel, body_bytes=LIMITS.request_body_bytes
    )
    async def preview(body: models.PreviewRequestModel) -> Any:
        """What an action would touch; nothing is changed."""
        radius = await backend.previews.radius(await _request(backend, body))
        return engine_json.radius_json(radius)


async def _request(backend: Backend, body: models.PreviewRequestModel) -> Request:
    previews = backend.previews
    partitions = None if body.partitions is None else partitions_of(body.partitions)
    match body.action:
        case "start" if body.plan is not None:
            return previews.start(await plan_of(body.plan), body.throttle_bytes_per_s)
        case "cancel" if partitions:
            return await previews.cancel(partitions)
        case "cancel" if body.operation_id:
            return await previews.cancel(previews.partitions_of(body.operation_id))
        case "pause" if body.operation_id:
            return previews.pause(body.operation_id)
        case "undo" if body.operation_id:
            return await previews.undo(body.operation_id)
        case "elect":
            return previews.elect(partitions)
        case "throttle":
            return previews.throttle(
                rates_of(body.rates), await replicas_of(backend, body.replicas)
            )
        case _:
            raise BadInput(
                f"A preview of '{body.action}' lacks what it is about.",
                advice="start needs a plan, cancel partitions or an operation, pause and undo an "
                "operation.",
            )


def _topics(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    views = Routes(app, Role.VIEWER)

    @changes.post(
        "/v1/topics/alter", response_model=ChangeModel, body_bytes=LIMITS.request_body_bytes
    )
    async def alter(body: models.AlterTopicsRequestModel) -> Any:
        """KIP-179's early draft, alterTopics: partitions, replication factor, assignment."""
        await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
        wanted = {
            entry.topic: AlteredTopic(
                entry.partitions,
                entry.replication_factor,
                {one.partition: tuple(one.replicas) for one in entry.assignment},
            )
            for entry in body.topics
        }
        once(len(wanted), len(body.topics), "topic")
        answer = await backend.alterations.alter(
            wanted,
            validate_only=body.validate_only,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker_of(body),
        )
        return documents.change_json(answer)

    @views.post(
        "/v1/replicas/status",
        response_model=models.StatusesModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def status(body: models.StatusRequestModel) -> Any:
        """KIP-179's early draft, replicaStatus: the exact lag of every replica, and when."""
        lags = await backend.admin.replica_status(
            partitions_of(body.partitions), timeout_s=backend.settings.request_timeout_s
        )
        return {"replicas": await aside(len(lags), _statuses_json, lags)}


def _statuses_json(lags: Sequence[ReplicaLag]) -> list[documents.Json]:
    return [engine_json.status_json(lag) for lag in lags]


async def _asker(
    backend: Backend, operation_id: str, body: models.SteerRequestModel | models.AbandonRequestModel
) -> Requester:
    """Who steers; stops a request that this backend may not carry out, and whoever has to take the
    operation over first."""
    await _prepare(backend, body.cluster_id, validate_only=body.validate_only)
    asker = asker_of(body)
    backend.claims.require((operation_id,), asker)
    return asker


async def _prepare(backend: Backend, cluster_id: str | None, *, validate_only: bool) -> None:
    """Stop a request for another cluster, and one that this backend may not carry out."""
    await refuse_other_cluster(backend, cluster_id)
    if not validate_only:
        await backend.ready()
