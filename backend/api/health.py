"""Whether a backend runs and can do its work, for those that start, watch and replace it.

`/healthz`: the process answers; restart it where it does not. `/readyz`: it sees the cluster and
knows who may change it; send nobody there where it does not. `/metrics`: the same as numbers, and
what the cluster looks like from here, in Prometheus' text format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from backend.access.roles import Role
from backend.api.backend import Backend
from backend.api.metrics import CONTENT_TYPE, exposition
from backend.api.routes import Routes
from backend.operations.lease import Duty

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
    """Whether the backend can do its work."""

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
        """Whether it sees the cluster, and knows who may change it; 503 where not."""
        checks = list(checked(backend))
        ready = all(check.ok for check in checks)
        found = [{"name": each.name, "ok": each.ok, "words": each.words} for each in checks]
        return JSONResponse({"ready": ready, "checks": found}, 200 if ready else 503)

    @views.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
    )
    async def metrics() -> Response:
        """What this backend and its cluster look like, for Prometheus."""
        checks = {check.name: check.ok for check in checked(backend)}
        return Response(exposition(backend, checks), media_type=CONTENT_TYPE)


def checked(backend: Backend) -> Iterator[Check]:
    """What has to be so for a backend to do its work. The words name no broker and no address."""
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
    duty = backend.seat.duty
    yield Check("journal", duty is not Duty.BLOCKED, f"duty: {duty}")


def answers(backend: Backend) -> bool | None:
    """Whether the cluster is seen from here at this moment; None before the first look."""
    if backend.hub.latest is None:
        return None
    found = {check.name: check.ok for check in checked(backend)}
    return found["cluster"] and found["samples"]
