"""The routes of throttles: those that stand, those that are set, and whose they are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import require_active
from kshunt.backend.api.core.request_values import (
    partitions_of,
    rates_of,
    replicas_of,
    timeout_s_of,
)
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.throttles import (
    AdoptRequestModel,
    PriorRequestModel,
    RatesRequestModel,
    ReplicasRequestModel,
)
from kshunt.backend.api.schema.throttles import OwnedThrottles, ThrottleSettings
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.core.journal_audit import discarded_line


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _reads(app, backend)
    _changes(app, backend)
    _prior(app, backend)


def _reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/throttles", ThrottleSettings)
    async def throttles() -> Any:
        """Every replication throttle, read from the cluster."""
        cluster = await backend.admin.cluster.describe(timeout_s=backend.settings.request_timeout_s)
        found = await backend.admin.throttles.describe(
            sorted(cluster.brokers),
            cluster.assignment.topics,
            timeout_s=backend.settings.request_timeout_s,
        )
        return ThrottleSettings.of(found)

    @views.get("/v1/throttles/owned", OwnedThrottles)
    async def owned() -> Any:
        """The owners of each throttle, and the value that is restored when it is removed."""
        return OwnedThrottles(await backend.throttle_repair.owned())


def _changes(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    previews = backend.previews

    @changes.post("/v1/throttles/rates", ChangeAnswer)
    async def rates(body: RatesRequestModel) -> Any:
        """Set brokers' throttled rates; null removes one."""
        wanted = rates_of(body.rates)
        change = await require_active(backend, body)
        await previews.check(change.preview, previews.throttle(wanted, {}))
        backend.claims.require_rates(wanted, change.requester)
        return await backend.throttles.alter_rates(
            wanted,
            change,
            auto_remove=body.auto_remove_throttle,
            timeout_s=timeout_s_of(body.timeout_ms),
        )

    @changes.post(
        "/v1/throttles/replicas",
        ChangeAnswer,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def throttled_replicas(body: ReplicasRequestModel) -> Any:
        """Set topics' throttled replicas; an empty side is removed."""
        wanted = await replicas_of(backend, body.replicas)
        change = await require_active(backend, body)
        await previews.check(change.preview, previews.throttle({}, wanted))
        backend.claims.require_lists(wanted, change.requester)
        return await backend.throttles.alter_replicas(
            wanted,
            change,
            auto_remove=body.auto_remove_throttle,
            timeout_s=timeout_s_of(body.timeout_ms),
        )

    @changes.post("/v1/throttles/adopt", ChangeAnswer)
    async def adopt(body: AdoptRequestModel) -> Any:
        """Take over the throttle of moves that somebody else started, and remove it at the end."""
        change = await require_active(backend, body)
        partitions = None if body.partitions is None else partitions_of(body.partitions)
        return await backend.operation_control.adopt(partitions, change)


def _prior(app: FastAPI, backend: Backend) -> None:
    views, admins = Routes(app, Role.VIEWER), Routes(app, Role.ADMIN)

    @views.get("/v1/throttles/prior", OwnedThrottles)
    async def prior() -> Any:
        """Settings whose former value only this host remembers, because the journal was lost."""
        return OwnedThrottles(await backend.throttle_repair.prior(backend.second_copy.lost))

    @admins.post("/v1/throttles/prior", ChangeAnswer)
    async def restore_or_discard_prior(body: PriorRequestModel) -> Any:
        """Restore the ones that kshunt wrote and nobody changed, or discard them."""
        change = await require_active(backend, body)
        copy = backend.second_copy
        answer = ChangeAnswer(change.validate_only, None, ())
        if not body.discard:
            answer = await backend.throttle_repair.restore_prior(copy.lost, change)
        elif copy.lost and not change.validate_only:
            await backend.registry.tell(discarded_line(len(copy.lost), change.requester))
        if not change.validate_only:
            copy.forget_lost()
        return answer
