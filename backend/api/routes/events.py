"""The route of events: what changes, as it changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.streams import UNBUFFERED, event_stream
from kshunt.backend.api.http.route_roles import Routes


def install(app: FastAPI, backend: Backend) -> None:
    """Add the route."""
    views = Routes(app, Role.VIEWER)

    @views.get(
        "/v1/events",
        stream=True,
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    ) -> StreamingResponse:
        """Server-sent events: operations that change; resumes after `Last-Event-ID`."""
        return StreamingResponse(
            event_stream(backend.events, last_event_id, backend.ending),
            media_type="text/event-stream",
            headers=UNBUFFERED,
        )
