"""Whether a backend runs and can do its work, for those that start, watch and replace it.

`/healthz`: the process answers; restart it where it does not. `/readyz`: it sees the cluster, so
that operators can look; a load balancer uses this one. `/readyz/changes`: it can also carry out a
change, or pass it on to the backend that acts. An alert and an automated caller use that one: while
the journal is offline no backend changes anything, and operators still have to see the cluster.
`/metrics`: all of it as numbers, and what the cluster looks like from here, in Prometheus' text
format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from backend.access.roles import Role
from backend.api.forwarding.peers import unreachable
from backend.api.http.route_roles import Routes
from backend.api.routes.metrics import CONTENT_TYPE, exposition
from backend.api.service.backend import Backend
from backend.operations.lease.lease import LeaseState

LATE: Final = 3.0
"""So many sweeps may pass without a newer look at the cluster."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so."""

    name: str
    ok: bool
    words: str


class CheckModel(BaseModel):
    """One thing that has to be so."""

    name: str
    ok: bool
    words: str


class ReadyModel(BaseModel):
    """Whether the backend can be used, to look or to change."""

    ready: bool
    checks: list[CheckModel] = Field(description="all of them, those that hold too")


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    anybody = Routes(app, None)
    views = Routes(app, Role.VIEWER)

    @anybody.get("/healthz")
    async def healthz() -> dict[str, str]:
        """That the backend runs; `/readyz` says whether it can do its work."""
        return {"status": "ok"}

    @anybody.get("/readyz", response_model=ReadyModel, responses={503: {"model": ReadyModel}})
    async def readyz() -> Any:
        """Whether it sees the cluster; 503 where not. For load balancers."""
        return _answer(checked(backend))

    @anybody.get(
        "/readyz/changes", response_model=ReadyModel, responses={503: {"model": ReadyModel}}
    )
    async def readyz_changes() -> Any:
        """Whether it can change the cluster too, itself or by another backend; 503 where not."""
        return _answer([*checked(backend), *checked_to_change(backend)])

    @views.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
    )
    async def metrics() -> Response:
        """What this backend and its cluster look like, for Prometheus."""
        found = (*checked(backend), *checked_to_change(backend))
        checks = {check.name: check.ok for check in found}
        return Response(exposition(backend, checks), media_type=CONTENT_TYPE)


def _answer(found: Iterable[Check]) -> JSONResponse:
    checks = tuple(found)
    ready = all(check.ok for check in checks)
    document = [{"name": each.name, "ok": each.ok, "words": each.words} for each in checks]
    return JSONResponse({"ready": ready, "checks": document}, 200 if ready else 503)


def checked(backend: Backend) -> Iterator[Check]:
    """What has to be so for operators to look. The words name no broker and no address."""
    snapshot, now_ms = backend.hub.latest, backend.clock.now_ms()
    if backend.stopping.is_set():
        yield Check("stopping", False, "it was told to stop")
    if snapshot is None:
        yield Check("cluster", False, "it has not answered yet")
        yield Check("samples", False, "there are none yet")
    else:
        silent = sum(status.stale for status in snapshot.brokers.values())
        there = len(snapshot.brokers)
        words = f"{there - silent} of {there} brokers answer"
        yield Check("cluster", silent < there, words)
        age_s = (now_ms - snapshot.taken_ms) / 1000
        # A clock that was set back makes an old look one of a time to come.
        fresh = abs(age_s) <= LATE * backend.settings.sampler.sweep_s
        yield Check("samples", fresh, f"the newest is {age_s:.0f} s old")


def checked_to_change(backend: Backend) -> Iterator[Check]:
    """What has to be so for a change besides. The words name no broker and no address."""
    duty, actor = backend.seat.duty, backend.seat.actor
    known = duty is not LeaseState.FOLLOW or actor is not None
    works = known and duty not in (LeaseState.BLOCKED, LeaseState.PAUSE)
    yield Check("journal", works, f"duty: {duty}")
    if duty is LeaseState.FOLLOW and actor is not None:
        passes_on = not unreachable(backend.seat.me, actor, backend.peers)
        words = "another backend acts, and changes "
        words += "are passed on to it" if passes_on else "cannot be passed on to it from here"
        yield Check("changes", passes_on, words)
    else:
        ok, words = _CHANGES[duty]
        yield Check("changes", ok, words)


_CHANGES: Final[Mapping[LeaseState, tuple[bool, str]]] = {
    LeaseState.ACT: (True, "this backend makes them"),
    LeaseState.IDLE: (True, "no backend acts; this one does when it is asked for a change"),
    LeaseState.TAKE_OVER: (True, "no backend acts; this one is about to"),
    LeaseState.WAIT: (False, "this backend waits until no other one can act"),
    LeaseState.PAUSE: (
        False,
        "refused: the journal has not confirmed that this backend still acts",
    ),
    LeaseState.BLOCKED: (
        False,
        "refused: the journal cannot be used, and the backend's log says why",
    ),
    LeaseState.FOLLOW: (False, "refused: the journal has not been read, so who acts is not known"),
}


def answers(backend: Backend) -> bool | None:
    """Whether the cluster is seen from here at this moment; None before the first look."""
    if backend.hub.latest is None:
        return None
    found = {check.name: check.ok for check in checked(backend)}
    return found["cluster"] and found["samples"]
