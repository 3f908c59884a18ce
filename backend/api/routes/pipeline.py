"""The routes that serve what the data pipeline has delivered; see `results_reader`."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import FastAPI, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from kshunt.backend.access.roles import Role
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.http.route_roles import Routes
from kshunt.backend.domain.pipeline.delivered import (
    BottleneckRow,
    CauseRow,
    EffectRow,
    EtaRow,
    FileAsideRow,
    LoadRow,
    PairRow,
    PipelineStatus,
    QualityRow,
    Rows,
    StallRow,
    TableStatus,
    TransferAnswer,
    TransferHistory,
)
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    MOVE_PAIRS,
    QUALITY,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.errors import KshuntError
from kshunt.backend.telemetry.results.pipeline_status import PipelineFacts, samples_of, status_of

if TYPE_CHECKING:
    from kshunt.backend.telemetry.results.results_reader import Results

T = TypeVar("T")


def _as_written(text: object) -> object:
    """A number would be taken for seconds since the epoch."""
    if not isinstance(text, str) or _DAY.fullmatch(text) is None:
        raise PydanticCustomError("day", "a day is written as 2026-11-24")
    return text


_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Day = Annotated[date, BeforeValidator(_as_written)]
Hours = Annotated[int, Query(ge=1, le=24 * 31, description="how far back to look")]
LongHours = Annotated[int, Query(ge=1, le=24 * 731, description="how far back to look")]
"""Of what is rolled up."""
Most = Annotated[int, Query(ge=1, le=10_000, description="maximum number of rows")]


def install(app: FastAPI, backend: Backend) -> None:
    """Add the routes."""
    _status_routes(app, backend)
    _present(app, backend)
    _past(app, backend)


def _status_routes(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/pipeline", PipelineStatus)
    async def pipeline() -> Any:
        """Whether the data pipeline has results, how old they are, and what to do."""
        return await asyncio.to_thread(pipeline_status, backend)


def pipeline_status(backend: Backend) -> PipelineStatus:
    """How the pipeline stands; may take some milliseconds."""
    recording, results = backend.recording, backend.results
    found: tuple[TableStatus, ...] = ()
    unreadable = ""
    files: Rows[FileAsideRow] | None = None
    try:
        if results is not None:
            found = results.tables()
            files = results.files_aside(backend.clock.now_ms() - DAY_MS)
    except (KshuntError, OSError) as error:
        unreadable = str(error)
    seen = PipelineFacts(
        folder=None if results is None else results.folder,
        samples_folder=backend.settings.recording.folder,
        samples=None if recording is None else samples_of(recording.status),
        process=backend.pipeline_process(),
        now_ms=backend.clock.now_ms(),
        tables=found,
        files=files,
        unreadable=unreadable,
    )
    return status_of(seen)


async def _asked(
    backend: Backend, table: ResultTable, question: Callable[[Results], Rows[T]]
) -> Rows[T]:
    """The answer of the results; without any, no rows."""
    results = backend.results
    if results is None:
        return Rows(TableStatus(table.name))
    return await asyncio.to_thread(question, results)


def _present(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    @views.get("/v1/pipeline/eta", Rows[EtaRow])
    async def eta(
        operation: Annotated[str, Query(max_length=64)] = "",
        copies: Annotated[bool, Query(description="for each replica, not for operations")] = False,
        limit: Most = 1_000,
    ) -> Any:
        """The newest forecasts: when an operation, or each of its copies, will be done."""
        return await _asked(
            backend, ETA, lambda one: one.etas(operation, copies=copies, most=limit)
        )

    @views.get("/v1/pipeline/load", Rows[LoadRow])
    async def load() -> Any:
        """Each broker in its newest hour: rates of moves, its disk, and when it will be full."""
        return await _asked(backend, BROKER_LOAD, lambda one: one.loads())

    @views.get("/v1/pipeline/throttles", Rows[EffectRow])
    async def throttles() -> Any:
        """The recent effect of each throttle, and the recommended rate with its reason."""
        return await _asked(backend, THROTTLE_EFFECT, lambda one: one.effects())


def _past(app: FastAPI, backend: Backend) -> None:
    views = Routes(app, Role.VIEWER)

    def since_ms(hours: int) -> int:
        return backend.clock.now_ms() - hours * HOUR_MS

    @views.get("/v1/pipeline/course", TransferAnswer)
    async def transfer_history(
        hours: LongHours = 72, points: Annotated[int, Query(ge=2, le=2_000)] = 300
    ) -> Any:
        """Lag and rates of copies, over days, down-sampled."""
        results = backend.results
        if results is None:
            return TransferAnswer(TableStatus(RATES.name), TransferHistory())
        return TransferAnswer(
            *await asyncio.to_thread(results.transfer_history, since_ms(hours), points)
        )

    @views.get("/v1/pipeline/stalls", Rows[StallRow])
    async def stalls(
        hours: Hours = 24,
        topic: Annotated[str | None, Query(max_length=249)] = None,
        partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
        broker: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
        limit: Most = 1_000,
    ) -> Any:
        """Times in which a replica should have advanced but did not; the open ones first."""
        return await _asked(
            backend,
            STALLS,
            lambda one: one.stalls(
                since_ms(hours), topic=topic, partition=partition, broker=broker, most=limit
            ),
        )

    @views.get("/v1/pipeline/causes", Rows[CauseRow])
    async def causes(hours: Hours = 24) -> Any:
        """Stalls by their cause."""
        return await _asked(backend, STALLS, lambda one: one.causes(since_ms(hours)))

    @views.get("/v1/pipeline/bottlenecks", Rows[BottleneckRow])
    async def bottlenecks(
        hours: LongHours = 24,
        day: Annotated[
            Day | None, Query(description="a day in UTC, such as 2026-11-24, instead of `hours`")
        ] = None,
    ) -> Any:
        """What held operations up: a throttle or a broker, and for how long; the longest first."""
        start_ms, end_ms = since_ms(hours), math.inf
        if day is not None:
            start_ms = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
            end_ms = start_ms + DAY_MS
        return await _asked(backend, ETA, lambda one: one.bottlenecks(start_ms, end_ms))

    @views.get("/v1/pipeline/pairs", Rows[PairRow])
    async def pairs(hours: Hours = 24) -> Any:
        """Rates of copies between each pair of brokers, throttled or not."""
        return await _asked(backend, MOVE_PAIRS, lambda one: one.pairs(since_ms(hours)))

    @views.get("/v1/pipeline/quality", Rows[QualityRow])
    async def quality(hours: Hours = 24) -> Any:
        """Samples that failed a check, and what happened to them."""
        return await _asked(backend, QUALITY, lambda one: one.quality(since_ms(hours)))

    @views.get("/v1/pipeline/files", Rows[FileAsideRow])
    async def files(hours: Hours = 24) -> Any:
        """Files of samples that were set aside: they are damaged, or not of the recording."""
        return await _asked(backend, QUARANTINE_FILES, lambda one: one.files_aside(since_ms(hours)))
