"""The client's questions about what the data pipeline delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.domain.pipeline.delivered import (
    CauseRow,
    EffectRow,
    EtaRow,
    LoadRow,
    PairRow,
    PipelinePast,
    PipelineProcess,
    PipelineState,
    PipelineStatus,
    QualityRow,
    Rows,
    SampleGap,
    SamplesStatus,
    StallRow,
    TableStatus,
    TransferAnswer,
    TransferHistory,
    TransferPoint,
)

T = TypeVar("T")

PAST_HOURS = 72
"""How far back the course of a history goes."""
DAY_HOURS = 24
STALLS_MOST = 100


class PipelineClient(Requests):
    """Forecasts, stalls, loads, and what throttles did."""

    def pipeline(self) -> PipelineStatus:
        """Whether the data pipeline has delivered anything, how old it is, and what to do."""
        return read_pipeline(self._get("/v1/pipeline"))

    def pipeline_etas(self, operation_id: str = "", *, copies: bool = False) -> Rows[EtaRow]:
        """The newest forecasts: of operations, or of each of the copies."""
        asked = {"operation": operation_id} if operation_id else {}
        return self._rows("eta", EtaRow, **asked, **({"copies": "true"} if copies else {}))

    def transfer_history(self, hours: int = PAST_HOURS, points: int = 300) -> TransferAnswer:
        """Lag and throughput over days."""
        asked = {"hours": str(hours), "points": str(points)}
        document = self._get("/v1/pipeline/course", asked)
        history = document["course"]
        found = tuple(_made(TransferPoint, point) for point in history["points"])
        return TransferAnswer(
            _made(TableStatus, document["of"]),
            TransferHistory(found, history["bucket_s"], history["since_ms"]),
        )

    def pipeline_stalls(
        self,
        hours: int = DAY_HOURS,
        *,
        replica: tuple[str, int, int] | None = None,
        most: int = STALLS_MOST,
    ) -> Rows[StallRow]:
        """Times in which replicas did not advance, or one of them: topic, partition, broker."""
        asked = {"hours": str(hours), "limit": str(most)}
        if replica is not None:
            asked |= dict(zip(("topic", "partition", "broker"), map(str, replica), strict=True))
        return self._rows("stalls", StallRow, **asked)

    def pipeline_causes(self, hours: int = DAY_HOURS) -> Rows[CauseRow]:
        """Stalls by what caused them."""
        return self._rows("causes", CauseRow, hours=str(hours))

    def pipeline_loads(self) -> Rows[LoadRow]:
        """Each broker in its newest hour."""
        return self._rows("load", LoadRow)

    def pipeline_effects(self) -> Rows[EffectRow]:
        """What each throttle did of late, and which rate is recommended."""
        return self._rows("throttles", EffectRow)

    def pipeline_pairs(self, hours: int = DAY_HOURS) -> Rows[PairRow]:
        """How fast copies went from each broker to each other."""
        return self._rows("pairs", PairRow, hours=str(hours))

    def pipeline_quality(self, hours: int = DAY_HOURS) -> Rows[QualityRow]:
        """Samples that were not as expected."""
        return self._rows("quality", QualityRow, hours=str(hours))

    def pipeline_past(self) -> PipelinePast:
        """All that a history shows."""
        return PipelinePast(
            self.transfer_history(),
            self.pipeline_etas(),
            self.pipeline_stalls(),
            self.pipeline_causes(),
            self.pipeline_loads(),
            self.pipeline_pairs(),
            self.pipeline_quality(),
        )

    def _rows(self, name: str, kind: Callable[..., T], **asked: str) -> Rows[T]:
        document = self._get(f"/v1/pipeline/{name}", asked)
        rows = tuple(_made(kind, row) for row in document["rows"])
        of = _made(TableStatus, document["of"])
        return Rows(of, rows, document["more"], document["since_ms"])


def read_pipeline(document: Mapping[str, Any]) -> PipelineStatus:
    """From the answer of `/v1/pipeline`."""
    samples, process = document["samples"], document["process"]
    if samples is not None:
        missed = tuple(_made(SampleGap, one) for one in samples["missed"])
        samples = _made(SamplesStatus, {**samples, "missed": missed})
    parts = {
        "state": PipelineState(document["state"]),
        "process": None if process is None else _made(PipelineProcess, process),
        "samples": samples,
        "tables": tuple(_made(TableStatus, table) for table in document["tables"]),
    }
    return _made(PipelineStatus, {**document, **parts})


def _made(kind: Callable[..., T], document: Mapping[str, Any]) -> T:
    """A value of a kind; what a later backend says besides is passed over."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in document.items() if name in known})
