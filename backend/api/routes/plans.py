"""The routes that plan and rehearse. They read what the sampler saw last, and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import LOCAL, Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import refuse_other_cluster
from kshunt.backend.api.core.request_values import plan_of
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.plans import (
    PlanRequestModel,
    RehearsalRequestModel,
)
from kshunt.backend.api.schema.plans import PlanProposal, Rehearsals
from kshunt.backend.errors import Conflict
from kshunt.backend.limits import LIMITS
from kshunt.backend.planning.planner_pool import Planners
from kshunt.backend.planning.planner_queue import ANYBODY
from kshunt.backend.rehearsal.picture import picture_of

LOOK_S: Final = 1.0
"""How often a look is taken whether somebody still waits for the answer."""

T = TypeVar("T")


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)
    planners = Planners()

    @views.post("/v1/plans", PlanProposal)
    async def plan(body: PlanRequestModel, request: Request) -> Any:
        """A plan for a goal, with its effect on each broker."""
        await refuse_other_cluster(backend, body.cluster_id)
        question = body.request()
        picture = await asyncio.to_thread(picture_of, await backend.snapshot())
        answer = await _while_asked(request, planners.answer(picture, question, _requester()))
        return await asyncio.to_thread(PlanProposal.of, answer)

    @views.post(
        "/v1/rehearsals",
        Rehearsals,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def rehearse(body: RehearsalRequestModel, request: Request) -> Any:
        """The course of a plan in a twin of the cluster, and the throttle for a deadline.

        For each throttle: when it is done, what each broker carries, which replicas fall behind.
        """
        wanted = await plan_of(body.plan)
        await refuse_other_cluster(backend, body.cluster_id, wanted.cluster_id)
        question = body.request(dict(wanted.replicas))
        picture = await asyncio.to_thread(picture_of, await backend.snapshot())
        answer = await _while_asked(request, planners.answer(picture, question, _requester()))
        return await asyncio.to_thread(Rehearsals.of, answer)


def _requester() -> str:
    """Who takes turns with others; those who are not told apart are one."""
    caller = CURRENT_CALLER.get()
    return ANYBODY if caller is LOCAL else caller.id


async def _while_asked(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which is cancelled if the client disconnects.

    Raises:
        Conflict: they have.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=LOOK_S))[0]:
            if await request.is_disconnected():
                raise Conflict("The caller disconnected, so the planner was stopped.")
        return task.result()
    finally:
        task.cancel()
