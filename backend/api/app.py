"""The routes of the API: each reads a request, asks the backend, and writes the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from backend import __version__
from backend.api import documents, models, problems
from backend.api.backend import Backend
from backend.api.frames import MEDIA_TYPE, FrameWriter, broker_status_json, with_rows
from backend.api.rows import RowFilter, matching_rows, row_json
from backend.api.stream import StreamPlaces, event_stream, replica_stream
from backend.domain.plan import ReassignmentPlan, check_plan
from backend.domain.throttle import ReplicaSet, ThrottledRate, ThrottledReplicas
from backend.errors import BadInput
from backend.operations.election import Pacing
from backend.operations.reassign import ReassignRequest
from backend.operations.results import check_cluster
from backend.operations.unclean import UncleanElections, last_seen_ends
from backend.settings import LIMITS

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.ProblemModel, "content": {problems.MEDIA_TYPE: {}}}
    for status in (400, 403, 404, 405, 409, 413, 422, 500, 502, 503)
}
TIMEOUT_S_MIN = 1.0
Filter32 = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


def create_app(backend: Backend) -> FastAPI:
    """The API of one backend, which starts and stops with the application."""

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
    )
    problems.install(app)
    _reads(app, backend)
    _streams(app, backend)
    _plans(app, backend)
    _changes(app, backend)
    _elections(app, backend)
    return app


def _reads(app: FastAPI, backend: Backend) -> None:
    @app.get("/v1/cluster", response_model=models.ClusterModel)
    async def cluster() -> Any:
        """Which cluster this backend serves, and how fresh its picture is."""
        return asdict(await backend.cluster_info())

    @app.get("/v1/brokers", response_model=models.BrokersModel)
    async def brokers() -> Any:
        """Every broker that is up or hosts a replica."""
        snapshot = await backend.snapshot()
        statuses = [broker_status_json(status) for status in snapshot.brokers.values()]
        return {"version": snapshot.version, "brokers": statuses}

    @app.get("/v1/throttles", response_model=models.ThrottlesModel)
    async def throttles() -> Any:
        """Every replication throttle, asked of the cluster."""
        cluster = await backend.admin.describe(timeout_s=backend.settings.request_timeout_s)
        found = await backend.admin.throttles(
            sorted(cluster.brokers),
            cluster.assignment.topics,
            timeout_s=backend.settings.request_timeout_s,
        )
        return documents.throttles_json(found)

    @app.get("/v1/reassignments", response_model=models.ReassignmentsModel)
    async def reassignments() -> Any:
        """Every partition that moves, asked of the cluster."""
        ongoing = await backend.queries.reassignments()
        return {"reassignments": [documents.reassignment_json(m) for m in ongoing.values()]}

    @app.get("/v1/operations", response_model=models.OperationsModel)
    async def operations() -> Any:
        """What this backend was asked to do, newest first."""
        return {"operations": [documents.operation_json(o) for o in backend.registry]}

    @app.get("/v1/operations/{operation_id}", response_model=models.OperationModel)
    async def operation(
        operation_id: Annotated[str, Path(min_length=1, max_length=64)],
    ) -> Any:
        """One operation."""
        found = backend.registry.get(operation_id)
        if found is None:
            return problems.problem(404, "No such operation", "This backend has none of that id.")
        return documents.operation_json(found)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """That the backend runs; whether the cluster answers is in `/v1/cluster`."""
        return {"status": "ok"}


def _streams(app: FastAPI, backend: Backend) -> None:
    places = StreamPlaces()

    @app.get(
        "/v1/replicas",
        response_model=models.ReplicasModel,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
    )
    async def replicas(
        topic: Annotated[str | None, Query(max_length=249)] = None,
        partition: Filter32 = None,
        broker: Filter32 = None,
        moving: Annotated[bool | None, Query()] = None,
        behind: Annotated[bool | None, Query()] = None,
        offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMITS.rows_per_page)] = 1_000,
        accept: Annotated[str, Header()] = "application/json",
    ) -> Any:
        """Replicas that pass the filters: a page of JSON, or all of them as Arrow IPC."""
        snapshot = await backend.snapshot()
        rows = matching_rows(snapshot, RowFilter(topic, partition, broker, moving, behind))
        if MEDIA_TYPE in accept:
            return Response(FrameWriter().write(with_rows(snapshot, rows)), media_type=MEDIA_TYPE)
        return {
            "version": snapshot.version,
            "taken_ms": snapshot.taken_ms,
            "matching": len(rows),
            "replicas": [row_json(snapshot, int(row)) for row in rows[offset : offset + limit]],
        }

    @app.get(
        "/v1/replicas/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {MEDIA_TYPE: {}}}},
    )
    async def stream() -> StreamingResponse:
        """Arrow IPC without end: the first batch is everything, each later one what changed."""
        await backend.snapshot()
        places.take()
        return StreamingResponse(
            places.held(replica_stream(backend.hub)), media_type=MEDIA_TYPE, headers=_UNBUFFERED
        )

    @app.get(
        "/v1/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    ) -> StreamingResponse:
        """Server-sent events: operations that change; resumes after `Last-Event-ID`."""
        return StreamingResponse(
            event_stream(backend.events, last_event_id),
            media_type="text/event-stream",
            headers=_UNBUFFERED,
        )


_UNBUFFERED = {"cache-control": "no-store", "x-accel-buffering": "no"}


def _plans(app: FastAPI, backend: Backend) -> None:
    @app.post("/v1/reassignments/progress", response_model=models.ProgressModel)
    async def progress(body: models.PlanRequest) -> Any:
        """How far each replica of the plan is (KIP-179, --progress)."""
        return {"rows": documents.progress_json(await backend.queries.progress(_plan(body.plan)))}

    @app.post("/v1/reassignments/verify", response_model=models.VerifyModel)
    async def verify(body: models.VerifyRequestModel) -> Any:
        """Whether the plan is done; clears what throttles it left, unless they are preserved."""
        answer = await backend.queries.verify(
            _plan(body.plan), preserve_throttles=body.preserve_throttles
        )
        backend.sampler.nudge()
        return documents.verify_json(answer)

    @app.post("/v1/reassignments/generate", response_model=models.GeneratedModel)
    async def generate(body: models.GenerateRequestModel) -> Any:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        generated = await backend.queries.generate(
            body.topics, body.brokers, rack_aware=body.rack_aware
        )
        return documents.generated_json(generated)


def _changes(app: FastAPI, backend: Backend) -> None:
    @app.post("/v1/reassignments", response_model=models.ChangeModel)
    async def reassign(body: models.ReassignRequestModel) -> Any:
        """Start a reassignment, with a throttle that comes off when it ends."""
        request = ReassignRequest(
            plan=_plan(body.plan),
            throttle_bytes_per_s=body.throttle_bytes_per_s,
            log_dirs_throttle_bytes_per_s=body.log_dirs_throttle_bytes_per_s,
            auto_remove_throttle=body.auto_remove_throttle,
            additional=body.additional,
            allow_replication_factor_change=body.allow_replication_factor_change,
            validate_only=body.validate_only,
            timeout_s=_timeout_s(body.timeout_ms),
        )
        await _meant_for(backend, body.cluster_id, body.plan.cluster_id)
        return documents.change_json(await backend.reassignments.start(request))

    @app.post("/v1/reassignments/cancel", response_model=models.ChangeModel)
    async def cancel(body: models.CancelRequestModel) -> Any:
        """Return partitions to their original replicas."""
        await _meant_for(backend, body.cluster_id)
        answer = await backend.reassignments.cancel(
            [documents.read_partition(entry.model_dump()) for entry in body.partitions],
            preserve_throttles=body.preserve_throttles,
            validate_only=body.validate_only,
            timeout_s=_timeout_s(body.timeout_ms),
        )
        return documents.change_json(answer)

    @app.post("/v1/throttles/rates", response_model=models.ChangeModel)
    async def rates(body: models.RatesRequestModel) -> Any:
        """Set brokers' throttled rates; null removes one."""
        wanted = {
            entry.broker: ThrottledRate(entry.leader_bytes_per_s, entry.follower_bytes_per_s)
            for entry in body.rates
        }
        _once(len(wanted), len(body.rates), "broker")
        await _meant_for(backend, body.cluster_id)
        answer = await backend.throttles.alter_rates(wanted, validate_only=body.validate_only)
        return documents.change_json(answer)

    @app.post("/v1/throttles/replicas", response_model=models.ChangeModel)
    async def throttled_replicas(body: models.ReplicasRequestModel) -> Any:
        """Set topics' throttled replicas; an empty side is removed."""
        wanted = {
            entry.topic: ThrottledReplicas(
                ReplicaSet.parse(entry.leaders), ReplicaSet.parse(entry.followers)
            )
            for entry in body.replicas
        }
        _once(len(wanted), len(body.replicas), "topic")
        await _meant_for(backend, body.cluster_id)
        answer = await backend.throttles.alter_replicas(wanted, validate_only=body.validate_only)
        return documents.change_json(answer)


def _elections(app: FastAPI, backend: Backend) -> None:
    unclean = UncleanElections(
        backend.admin, backend.registry, backend.clock, backend.settings.request_timeout_s
    )

    @app.post("/v1/elections/preferred", response_model=models.ElectionModel)
    async def elect(body: models.ElectionRequestModel) -> Any:
        """Elect preferred leaders; of every partition where `partitions` is null."""
        await _meant_for(backend, body.cluster_id)
        partitions = None
        if body.partitions is not None:
            partitions = [documents.read_partition(e.model_dump()) for e in body.partitions]
        answer = await backend.elections.elect(
            partitions,
            validate_only=body.validate_only,
            pacing=Pacing(body.batch_size, body.pause_ms / 1000),
            timeout_s=_timeout_s(body.timeout_ms),
        )
        return documents.election_json(answer)

    @app.post("/v1/elections/unclean", response_model=models.UncleanModel)
    async def elect_unclean(body: models.UncleanRequestModel) -> Any:
        """Elect leaders that may lack messages; `validate_only` says how many would be lost."""
        await _meant_for(backend, body.cluster_id)
        partitions = [documents.read_partition(e.model_dump()) for e in body.partitions]
        answer = await unclean.elect(
            partitions,
            confirm=body.confirm,
            validate_only=body.validate_only,
            last_seen=last_seen_ends(backend.hub.latest, partitions),
            timeout_s=_timeout_s(body.timeout_ms),
        )
        return documents.unclean_json(answer)


async def _meant_for(backend: Backend, *cluster_ids: str | None) -> None:
    """Stop a request that names another cluster than this."""
    if any(cluster_ids):
        actual = await backend.queries.cluster_id()
        for expected in cluster_ids:
            check_cluster(expected, actual)


def _plan(model: models.PlanModel) -> ReassignmentPlan:
    """The plan of a request, held to the same rules as a plan file."""
    return check_plan(model.model_dump(exclude_none=True))


def _timeout_s(timeout_ms: int) -> float:
    """Seconds to wait; at least `TIMEOUT_S_MIN`, because a shorter time fails by itself."""
    return max(timeout_ms / 1000, TIMEOUT_S_MIN)


def _once(distinct: int, given: int, what: str) -> None:
    if distinct != given:
        raise BadInput(f"A {what} is named twice; nothing was changed.")
