"""The routes of the API: each reads a request, asks the backend, and writes the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from backend import __version__
from backend.access.roles import Role
from backend.api.http import problems
from backend.api.http.paths import ID_PATTERN
from backend.api.http.request_bodies import BodyRoute
from backend.api.http.route_roles import Routes, describe_access
from backend.api.models.base import ChangeModel, ProblemModel
from backend.api.models.cluster import BrokersModel, ClusterModel
from backend.api.models.elections import (
    ElectionModel,
    ElectionRequestModel,
    UncleanModel,
    UncleanRequestModel,
)
from backend.api.models.operations import OperationModel, OperationsModel
from backend.api.models.proposals import PROPOSED
from backend.api.models.reassignments import (
    CancelRequestModel,
    GeneratedModel,
    GenerateRequestModel,
    PlanRequest,
    ProgressModel,
    ReassignmentsModel,
    ReassignRequestModel,
    VerifyModel,
    VerifyRequestModel,
)
from backend.api.models.replicas import ModeKey, ReplicasModel
from backend.api.models.throttles import RatesRequestModel, ReplicasRequestModel, ThrottlesModel
from backend.api.routes import health, pipeline, plans, shrink_checks, shrinks, team, topics
from backend.api.routes import operations as steering
from backend.api.schema.base import Json, change_json
from backend.api.schema.elections import election_json
from backend.api.schema.frames.writer import MEDIA_TYPE, FrameWriter, broker_status_json, with_rows
from backend.api.schema.operations import operation_json
from backend.api.schema.reassignments import (
    generated_json,
    progress_json,
    reassignment_json,
    verify_json,
)
from backend.api.schema.throttles import throttles_json
from backend.api.service import two_person_changes
from backend.api.service.backend import Backend
from backend.api.service.frame_feed import FrameFeed
from backend.api.service.replica_rows import RowFilter, matching_rows, row_json, stuck_in
from backend.api.service.request_values import (
    asker_of,
    caps_of,
    order_of,
    partitions_of,
    plan_of,
    rates_of,
    refuse_other_cluster,
    replicas_of,
    timeout_s_of,
)
from backend.api.service.streams import StreamPlaces, event_stream, replica_stream
from backend.domain.cluster.partition_modes import MODES_BY_KEY
from backend.domain.operations.operation import Operation
from backend.domain.reassignment.progress import with_causes
from backend.offload import aside
from backend.operations.elections.preferred import Pacing
from backend.operations.reassignment.starting import ReassignRequest
from backend.operations.review.blast_radius import Request
from backend.settings import LIMITS

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemModel, "content": {problems.MEDIA_TYPE: {}}}
    for status in (400, 403, 404, 405, 409, 413, 422, 500, 502, 503)
}
Filter32 = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


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
    _reads(app, backend)
    _streams(app, backend)
    _plans(app, backend)
    _changes(app, backend)
    _elections(app, backend)
    steering.install(app, backend)
    topics.install(app, backend)
    shrink_checks.install(app, backend)
    shrinks.install(app, backend)
    pipeline.install(app, backend)
    plans.install(app, backend)
    health.install(app, backend)
    team.install(app, backend)
    if secured:
        describe_access(app)
    return app


def _reads(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/cluster", response_model=ClusterModel)
    async def cluster() -> Any:
        """Which cluster this backend serves, and how fresh its picture is."""
        return asdict(await backend.cluster_info())

    @views.get("/v1/brokers", response_model=BrokersModel)
    async def brokers() -> Any:
        """Every broker that is up or hosts a replica."""
        snapshot = await backend.snapshot()
        statuses = [broker_status_json(status) for status in snapshot.brokers.values()]
        return {"version": snapshot.version, "brokers": statuses}

    @views.get("/v1/throttles", response_model=ThrottlesModel)
    async def throttles() -> Any:
        """Every replication throttle, asked of the cluster."""
        cluster = await backend.admin.describe(timeout_s=backend.settings.request_timeout_s)
        found = await backend.admin.throttles(
            sorted(cluster.brokers),
            cluster.assignment.topics,
            timeout_s=backend.settings.request_timeout_s,
        )
        return throttles_json(found)

    @views.get("/v1/reassignments", response_model=ReassignmentsModel)
    async def reassignments() -> Any:
        """Every partition that moves, asked of the cluster."""
        ongoing = await backend.queries.reassignments()
        return {"reassignments": [reassignment_json(m) for m in ongoing.values()]}

    @views.get("/v1/operations", response_model=OperationsModel)
    async def operations() -> Any:
        """What this backend was asked to do, newest first."""
        known = tuple(backend.registry)
        size = sum(len(operation.partitions) for operation in known)
        return {"operations": await aside(size, _operations_json, backend, known)}

    @views.get("/v1/operations/{operation_id}", response_model=OperationModel)
    async def operation(
        operation_id: Annotated[
            str, Path(min_length=1, max_length=64, json_schema_extra={"pattern": ID_PATTERN})
        ],
    ) -> Any:
        """One operation."""
        found = backend.registry.get(operation_id)
        if found is None:
            return problems.problem(404, "No such operation", "This backend has none of that id.")
        return await aside(len(found.partitions), _operation_json, backend, found)


def _operation_json(backend: Backend, found: Operation) -> Json:
    return operation_json(backend.shown(found))


def _operations_json(backend: Backend, known: Sequence[Operation]) -> list[Json]:
    return [_operation_json(backend, operation) for operation in known]


def _streams(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    places, feed = StreamPlaces(), FrameFeed()

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
            headers=_UNBUFFERED,
        )

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
            headers=_UNBUFFERED,
        )


_UNBUFFERED = {"cache-control": "no-store", "x-accel-buffering": "no"}


def _plans(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)
    changes = Routes(app, Role.OPERATOR)

    @views.post(
        "/v1/reassignments/progress",
        response_model=ProgressModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def progress(body: PlanRequest) -> Any:
        """How far each replica of the plan is (KIP-179, --progress), and why it is stuck."""
        rows = await backend.queries.progress(await plan_of(body.plan))
        found = await aside(len(rows), with_causes, rows, stuck_in(backend.hub.latest))
        return {"rows": await aside(len(rows), progress_json, found)}

    @changes.post(
        "/v1/reassignments/verify",
        response_model=VerifyModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def verify(body: VerifyRequestModel) -> Any:
        """Whether the plan is done; clears what throttles it left, unless they are preserved."""
        answer = await backend.queries.verify(
            await plan_of(body.plan), preserve_throttles=body.preserve_throttles
        )
        backend.sampler.nudge()
        return await aside(len(answer.rows), verify_json, answer)

    @views.post(
        "/v1/reassignments/generate",
        response_model=GeneratedModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def generate(body: GenerateRequestModel) -> Any:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        generated = await backend.queries.generate(
            body.topics, body.brokers, rack_aware=body.rack_aware
        )
        return await aside(len(generated.current), generated_json, generated)


class _Change(Protocol):
    """What every request for a change has."""

    validate_only: bool
    preview: str


def _prepared(backend: Backend) -> Callable[[_Change, Request | None], Awaitable[None]]:
    async def prepare(body: _Change, request: Request | None) -> None:
        """Wait until this backend may act, and stop a change whose preview is out of date."""
        if not body.validate_only:
            await backend.ready()
        if request is not None:
            await backend.previews.check(body.preview, request)

    return prepare


def _changes(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    prepare, previews = _prepared(backend), backend.previews

    @changes.post(
        "/v1/reassignments", response_model=ChangeModel, body_bytes=LIMITS.request_body_bytes
    )
    async def reassign(body: ReassignRequestModel) -> Any:
        """Start a reassignment, with a throttle that comes off when it ends."""
        request = ReassignRequest(
            plan=await plan_of(body.plan),
            throttle_bytes_per_s=body.throttle_bytes_per_s,
            log_dirs_throttle_bytes_per_s=body.log_dirs_throttle_bytes_per_s,
            auto_remove_throttle=body.auto_remove_throttle,
            additional=body.additional,
            allow_replication_factor_change=body.allow_replication_factor_change,
            all_or_nothing=body.all_or_nothing,
            validate_only=body.validate_only,
            timeout_s=timeout_s_of(body.timeout_ms),
            caps=caps_of(body.caps),
            order=order_of(body.caps),
            asker=asker_of(body),
        )
        await refuse_other_cluster(backend, body.cluster_id, body.plan.cluster_id)
        await prepare(body, previews.start(request.plan, request.throttle_bytes_per_s))
        # In addition to what moves, a plan leads moves elsewhere, or throttles them anew.
        backend.claims.require_moves(request.plan.replicas, request.asker)
        answer = await backend.reassignments.start(request)
        return await aside(len(answer.results), change_json, answer)

    @changes.post("/v1/reassignments/cancel", response_model=ChangeModel)
    async def cancel(body: CancelRequestModel) -> Any:
        """Return partitions to their original replicas."""
        await refuse_other_cluster(backend, body.cluster_id)
        partitions = partitions_of(body.partitions)
        await prepare(body, await previews.cancel(partitions) if body.preview else None)
        backend.claims.require_moves(partitions, asker_of(body))
        answer = await backend.reassignments.cancel(
            partitions,
            preserve_throttles=body.preserve_throttles,
            validate_only=body.validate_only,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker_of(body),
        )
        return await aside(len(answer.results), change_json, answer)

    @changes.post("/v1/throttles/rates", response_model=ChangeModel)
    async def rates(body: RatesRequestModel) -> Any:
        """Set brokers' throttled rates; null removes one."""
        wanted = rates_of(body.rates)
        await refuse_other_cluster(backend, body.cluster_id)
        await prepare(body, previews.throttle(wanted, {}))
        backend.claims.require_rates(wanted, asker_of(body))
        answer = await backend.throttles.alter_rates(
            wanted,
            validate_only=body.validate_only,
            auto_remove=body.auto_remove_throttle,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker_of(body),
        )
        return change_json(answer)

    @changes.post(
        "/v1/throttles/replicas",
        response_model=ChangeModel,
        body_bytes=LIMITS.request_body_bytes,
    )
    async def throttled_replicas(body: ReplicasRequestModel) -> Any:
        """Set topics' throttled replicas; an empty side is removed."""
        wanted = await replicas_of(backend, body.replicas)
        await refuse_other_cluster(backend, body.cluster_id)
        await prepare(body, previews.throttle({}, wanted))
        backend.claims.require_lists(wanted, asker_of(body))
        answer = await backend.throttles.alter_replicas(
            wanted,
            validate_only=body.validate_only,
            auto_remove=body.auto_remove_throttle,
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker_of(body),
        )
        return change_json(answer)


def _elections(app: FastAPI, backend: Backend) -> None:
    changes = Routes(app, Role.OPERATOR)
    admins = Routes(app, Role.ADMIN)
    prepare, previews = _prepared(backend), backend.previews

    @changes.post("/v1/elections/preferred", response_model=ElectionModel)
    async def elect(body: ElectionRequestModel) -> Any:
        """Elect preferred leaders; of every partition where `partitions` is null."""
        await refuse_other_cluster(backend, body.cluster_id)
        partitions = None if body.partitions is None else partitions_of(body.partitions)
        await prepare(body, previews.elect(partitions))
        answer = await backend.elections.elect(
            partitions,
            validate_only=body.validate_only,
            pacing=Pacing(body.batch_size, body.pause_ms / 1000),
            timeout_s=timeout_s_of(body.timeout_ms),
            asker=asker_of(body),
        )
        return await aside(len(answer.results), election_json, answer)

    @admins.post("/v1/elections/unclean", response_model=UncleanModel, responses=PROPOSED)
    async def elect_unclean(body: UncleanRequestModel) -> Any:
        """Elect leaders that may lack messages; `validate_only` says how many would be lost."""
        return await two_person_changes.asked(backend, two_person_changes.UNCLEAN, "", body)
