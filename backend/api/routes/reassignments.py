"""The routes of reassignments: what moves, plans to look at, and those that start and stop."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.forecasts import end_of_plan
from kshunt.backend.api.core.replica_rows import stuck_in
from kshunt.backend.api.core.request_values import (
    caps_of,
    order_of,
    partitions_of,
    plan_of,
    timeout_s_of,
)
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.reassignments import (
    CancelRequestModel,
    GenerateRequestModel,
    PlanModelRequest,
    ReassignRequestModel,
    VerifyRequestModel,
)
from kshunt.backend.api.schema.progress import ProgressRows
from kshunt.backend.api.schema.reassignments import (
    GeneratedPlans,
    MovingPartition,
    MovingPartitions,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, VerifyAnswer
from kshunt.backend.domain.reassignment.progress import with_causes, with_turns
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import offload
from kshunt.backend.operations.reassignment.starting import ReassignRequest


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _plans(app, backend)
    _changes(app, backend)


def _plans(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    changes = Routes(app, Role.OPERATOR)

    @views.get("/v1/reassignments", MovingPartitions)
    async def reassignments() -> Any:
        """Every partition that moves, read from the cluster."""
        ongoing = await backend.queries.reassignments()
        return MovingPartitions(tuple(map(MovingPartition.of, ongoing.values())))

    @views.post(
        "/v1/reassignments/progress",
        ProgressRows,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def progress(body: PlanModelRequest) -> Any:
        """The progress of each replica of the plan (KIP-179, --progress), why it is stuck, and
        when the plan will be done."""
        plan, latest = await plan_of(body.plan), backend.hub.latest
        rows = await backend.queries.progress(plan)
        found = await offload(len(rows), with_causes, rows, stuck_in(latest))
        found = await offload(len(rows), with_turns, found, backend.registry.waiting)
        end = await offload(len(rows), end_of_plan, plan, tuple(backend.registry), latest)
        return ProgressRows(found, end, backend.calibration.record)

    @changes.post(
        "/v1/reassignments/verify",
        VerifyAnswer,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def verify(body: VerifyRequestModel) -> Any:
        """Whether the plan is done; removes throttles that it left, unless they are preserved."""
        answer = await backend.queries.verify(
            await plan_of(body.plan), preserve_throttles=body.preserve_throttles
        )
        backend.sampler.nudge()
        return answer

    @views.post(
        "/v1/reassignments/generate",
        GeneratedPlans,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def generate(body: GenerateRequestModel) -> Any:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        generated = await backend.queries.generate(
            body.topics, body.brokers, rack_aware=body.rack_aware
        )
        return await offload(len(generated.current), GeneratedPlans.of, generated)


def _changes(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    previews = backend.previews

    @changes.post("/v1/reassignments", ChangeAnswer, body_bytes=LIMITS.request_body_bytes)
    async def reassign(body: ReassignRequestModel) -> Any:
        """Start a reassignment, with a throttle that is removed when it ends."""
        plan = await plan_of(body.plan)
        change = await require_active(backend, body, body.plan.cluster_id)
        foreseen = previews.start(plan, body.throttle_bytes_per_s)
        await previews.check(change.preview, foreseen)
        # In addition to what moves, a plan leads moves elsewhere, or throttles them anew.
        backend.claims.require_moves(plan.replicas, change.requester)
        request = ReassignRequest(
            plan=plan,
            throttle_bytes_per_s=body.throttle_bytes_per_s,
            log_dirs_throttle_bytes_per_s=body.log_dirs_throttle_bytes_per_s,
            auto_remove_throttle=body.auto_remove_throttle,
            additional=body.additional,
            allow_replication_factor_change=body.allow_replication_factor_change,
            all_or_nothing=body.all_or_nothing,
            timeout_s=timeout_s_of(body.timeout_ms),
            caps=caps_of(body.caps),
            order=order_of(body.caps),
            change=change,
            deadline_ms=body.deadline_ms,
        )
        return await backend.reassignments.start(request)

    @changes.post("/v1/reassignments/cancel", ChangeAnswer)
    async def cancel(body: CancelRequestModel) -> Any:
        """Return partitions to their original replicas."""
        change = await require_active(backend, body)
        partitions = partitions_of(body.partitions)
        if change.preview:
            await previews.check(change.preview, await previews.cancel(partitions))
        backend.claims.require_moves(partitions, change.requester)
        return await backend.reassignments.cancel(
            partitions,
            change,
            preserve_throttles=body.preserve_throttles,
            timeout_s=timeout_s_of(body.timeout_ms),
        )
