"""The routes that say who is connected to this backend."""

from __future__ import annotations

from fastapi import FastAPI

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.presence import PresenceRequestModel
from kshunt.backend.domain.operations.team import Presence


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    views = Routes(app, Role.VIEWER)
    board = backend.presence

    def here() -> Presence:
        return Presence(board.listed(), CURRENT_CALLER.get().name)

    @views.get("/v1/presence", Presence)
    async def present() -> Presence:
        """The people who are connected to this backend, and the view of each."""
        return here()

    @views.post("/v1/presence", Presence)
    async def seen(body: PresenceRequestModel) -> Presence:
        """Report a session every few seconds; the backend drops it after 45 s of silence."""
        caller = CURRENT_CALLER.get()
        if body.leaves:
            board.left(caller, body.session)
        else:
            board.seen(caller, body.session, body.who, body.screen, body.selected)
        return here()
