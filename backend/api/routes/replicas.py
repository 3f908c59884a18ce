"""The routes of replicas: a page of them, all of them as they change, and their exact lag."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Response
from fastapi.responses import StreamingResponse

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.answer_values import measured_replica
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.frame_feed import FrameFeed
from kshunt.backend.api.core.replica_rows import RowFilter, matching_rows, replica_row
from kshunt.backend.api.core.request_values import partitions_of
from kshunt.backend.api.core.streams import UNBUFFERED, StreamPlaces, replica_stream
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.api.request_models.replicas import StatusRequestModel
from kshunt.backend.api.schema.frames.snapshot_writer import MEDIA_TYPE, FrameWriter, with_rows
from kshunt.backend.api.schema.replicas import MeasuredReplicas, ModeKey, ReplicaPage
from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY
from kshunt.backend.limits import LIMITS

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
        ReplicaPage,
        also_as=MEDIA_TYPE,
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
        page = tuple(replica_row(snapshot, int(row)) for row in rows[offset : offset + limit])
        return ReplicaPage(snapshot.version, snapshot.taken_ms, len(rows), page)


def _stream(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    places, feed = StreamPlaces(), FrameFeed()

    @views.get(
        "/v1/replicas/stream",
        stream=True,
        response_class=StreamingResponse,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
    )
    async def stream(header_changes: Annotated[bool, Query()] = False) -> StreamingResponse:
        """Arrow IPC without end: the first batch is everything, each later one what changed.

        With `header_changes` a later batch's header has only what changed, too; else it is whole.
        """
        await backend.snapshot()
        places.take()
        return StreamingResponse(
            places.held(
                replica_stream(backend.hub, feed, backend.ending, header_changes=header_changes)
            ),
            media_type=MEDIA_TYPE,
            headers=UNBUFFERED,
        )


def _status(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.post(
        "/v1/replicas/status",
        MeasuredReplicas,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def status(body: StatusRequestModel) -> Any:
        """KIP-179's early draft, replicaStatus: the exact lag of every replica, and when."""
        lags = await backend.admin.replicas.status(
            partitions_of(body.partitions), timeout_s=backend.settings.request_timeout_s
        )
        return MeasuredReplicas(tuple(map(measured_replica, lags)))
