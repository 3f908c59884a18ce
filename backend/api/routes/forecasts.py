"""The route of forecasts: when what moves will be done."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.forecasts import forecasts_of
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.schema.forecasts import Forecasts


def install(app: FastAPI, backend: Backend) -> None:
    """Add the route."""
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/forecasts", Forecasts)
    async def forecasts() -> Any:
        """When each operation, and all that moves, will be done; eight in ten in the range."""
        snapshot = await backend.snapshot()
        found = forecasts_of(snapshot.expected_ends, backend.clock.now_ms())
        return Forecasts(snapshot.taken_ms, found, backend.calibration.record)
