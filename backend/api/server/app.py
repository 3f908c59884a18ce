"""The application: every resource's routes, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI

from kshunt import __version__
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.http import problems
from kshunt.backend.api.http.answer_schemas import reference_to
from kshunt.backend.api.http.answers import REFERENCE, describe_answers
from kshunt.backend.api.http.request_bodies import BodyRoute
from kshunt.backend.api.http.route_roles import describe_access
from kshunt.backend.api.routes import (
    audit,
    cluster,
    drift,
    elections,
    events,
    forecasts,
    health,
    operations,
    orphans,
    pipeline,
    plans,
    presence,
    previews,
    proposals,
    reassignments,
    replicas,
    throttles,
    topics,
)

_PROBLEM: Final = reference_to(problems.Problem, REFERENCE)
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"content": {problems.MEDIA_TYPE: {"schema": _PROBLEM}}}
    for status in (400, 403, 404, 405, 409, 413, 422, 500, 502, 503)
}
"""What every route may answer. Each model that a route names costs time at the start of a backend,
so routes refer to one that `describe_problems` adds."""
RESOURCES: Final = (
    audit.install,
    cluster.install,
    drift.install,
    elections.install,
    events.install,
    forecasts.install,
    health.install,
    operations.install,
    orphans.install,
    pipeline.install,
    plans.install,
    presence.install,
    previews.install,
    proposals.install,
    reassignments.install,
    replicas.install,
    throttles.install,
    topics.install,
)
"""Each adds its routes. No two routes answer one request, so their order is of no account."""


def create_app(backend: Backend, *, secured: bool = False) -> FastAPI:
    """The API of one backend, which starts and stops with the application.

    Args:
        backend: It.
        secured: Whether callers need credentials, for the description of the routes.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await backend.start()
        yield
        await backend.stop()

    app = FastAPI(
        title="kshunt",
        version=__version__,
        summary="Watch and steer Kafka reassignments.",
        lifespan=lifespan,
        responses=PROBLEMS,
        # Both pages load scripts from elsewhere; /openapi.json says the same.
        docs_url=None,
        redoc_url=None,
        # A path with one slash more is another path.
        redirect_slashes=False,
    )
    app.router.route_class = BodyRoute
    problems.install(app)
    for install in RESOURCES:
        install(app, backend)
    describe_answers(app, problems.Problem)
    if secured:
        describe_access(app)
    return app
