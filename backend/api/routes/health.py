"""Whether a backend runs and can do its work, for those that start, watch and replace it.

`/healthz`: the process answers; restart it where it does not. `/readyz`: it sees the cluster, so
that operators can look; a load balancer uses this one. `/readyz/changes`: it can also carry out a
change, or pass it on to the backend that acts. An alert and an automated caller use that one: while
the journal is offline no backend changes anything, and operators still have to see the cluster.
`/metrics`: all of it as numbers, and what the cluster looks like from here, in Prometheus' text
format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Response

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.metrics import CONTENT_TYPE, exposition
from kshunt.backend.api.core.readiness import checked, checked_to_change
from kshunt.backend.api.http.answers import MEDIA_TYPE
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.schema.health import Check, Readiness
from kshunt.backend.domain.untrusted.json_codec import to_json


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    anybody = Routes(app, None)
    views = Routes(app, Role.VIEWER)

    @anybody.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The backend runs; `/readyz` reports whether it can do its work."""
        return {"status": "ok"}

    @anybody.get("/readyz", Readiness, also={503: Readiness})
    async def readyz() -> Any:
        """Whether the backend sees the cluster; 503 if not. For load balancers."""
        return _answer(checked(backend))

    @anybody.get("/readyz/changes", Readiness, also={503: Readiness})
    async def readyz_changes() -> Any:
        """Whether the backend can also change the cluster, itself or by another one; 503 if not."""
        return _answer([*checked(backend), *checked_to_change(backend)])

    @views.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
    )
    async def metrics() -> Response:
        """Metrics of this backend and its cluster, for Prometheus."""
        found = (*checked(backend), *checked_to_change(backend))
        checks = {check.name: check.ok for check in found}
        return Response(exposition(backend, checks), media_type=CONTENT_TYPE)


def _answer(found: Iterable[Check]) -> Response:
    checks = tuple(found)
    answer = Readiness(all(check.ok for check in checks), checks)
    return Response(to_json(answer), 200 if answer.ready else 503, media_type=MEDIA_TYPE)
