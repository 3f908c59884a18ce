"""The routes of replicas: a page of them, all of them as they change, and their exact lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Response
from fastapi.responses import StreamingResponse

from kshunt.backend.access.roles import Role
from kshunt.backend.admin.port.cluster_admin import ReplicaLag
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.models.replicas import (
    ModeKey,
    ReplicasModel,
    StatusesModel,
    StatusRequestModel,
)
from kshunt.backend.api.schema.base import Json
from kshunt.backend.api.schema.frames.writer import MEDIA_TYPE, FrameWriter, with_rows
from kshunt.backend.api.service import operations_json
from kshunt.backend.api.service.backend import Backend
from kshunt.backend.api.service.frame_feed import FrameFeed
from kshunt.backend.api.service.replica_rows import RowFilter, matching_rows, row_json
from kshunt.backend.api.service.request_values import partitions_of
from kshunt.backend.api.service.streams import UNBUFFERED, StreamPlaces, replica_stream
from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY
from kshunt.backend.offload import offload
from kshunt.backend.settings import LIMITS

Filter32 = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _read(app, backend)
    _stream(app, backend)
    _status(app, backend)


def _read(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get(
        "/v1/replicas",
        response_model=ReplicasModel,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
    )
    async def replicas(
        topic: Annotated[str | None, Query(max_length=249)] = None,
        partition: Filter32 = None,
        broker: Filter32 = None,
        moving: Annotated[bool | None, Query()] = None,
        behind: Annotated[bool | None, Query()] = None,
        stuck: Annotated[bool | None, Query()] = None,
        mode: Annotated[ModeKey | None, Query()] = None,
        offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMITS.rows_per_page)] = 1_000,
        accept: Annotated[str, Header()] = "application/json",
    ) -> Any:
        """Replicas that pass the filters: a page of JSON, or all of them as Arrow IPC."""
        snapshot = await backend.snapshot()
        wanted = RowFilter(
            topic, partition, broker, moving, behind, stuck, MODES_BY_KEY.get(mode or "")
        )
        rows = matching_rows(snapshot, wanted)
        if MEDIA_TYPE in accept:
            return Response(FrameWriter().write(with_rows(snapshot, rows)), media_type=MEDIA_TYPE)
        return {
            "version": snapshot.version,
            "taken_ms": snapshot.taken_ms,
            "matching": len(rows),
            "replicas": [row_json(snapshot, int(row)) for row in rows[offset : offset + limit]],
        }


def _stream(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    places, feed = StreamPlaces(), FrameFeed()

    @views.get(
        "/v1/replicas/stream",
        stream=True,
        response_class=StreamingResponse,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
    )
    async def stream() -> StreamingResponse:
        """Arrow IPC without end: the first batch is everything, each later one what changed."""
        await backend.snapshot()
        places.take()
        return StreamingResponse(
            places.held(replica_stream(backend.hub, feed, backend.ending)),
            media_type=MEDIA_TYPE,
            headers=UNBUFFERED,
        )


def _status(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.post(
        "/v1/replicas/status",
        response_model=StatusesModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def status(body: StatusRequestModel) -> Any:
        """KIP-179's early draft, replicaStatus: the exact lag of every replica, and when."""
        lags = await backend.admin.replica_status(
            partitions_of(body.partitions), timeout_s=backend.settings.request_timeout_s
        )
        return {"replicas": await offload(len(lags), _statuses_json, lags)}


def _statuses_json(lags: Sequence[ReplicaLag]) -> list[Json]:
    return [operations_json.status_json(lag) for lag in lags]
