"""The client's questions about what the data pipeline delivered."""

from __future__ import annotations

from datetime import date
from http import HTTPStatus
from typing import TypeVar

from kshunt.backend.api.client.sending.sender import Subject
from kshunt.backend.domain.pipeline.delivered import (
    BottleneckRow,
    CauseRow,
    EffectRow,
    EtaRow,
    FileAsideRow,
    LoadRow,
    PairRow,
    PipelinePast,
    PipelineStatus,
    QualityRow,
    Rows,
    StallRow,
    TransferAnswer,
)
from kshunt.backend.errors import BackendError

T = TypeVar("T")

PAST_HOURS = 72
"""How far back the course of a history goes."""
DAY_HOURS = 24
STALLS_MOST = 100


class PipelineClient(Subject):
    """Forecasts, stalls, loads, and what throttles did."""

    def status(self) -> PipelineStatus:
        """Whether the data pipeline has results, how old they are, and what to do."""
        return self._sender.ask(PipelineStatus, "/v1/pipeline")

    def etas(self, operation_id: str = "", *, copies: bool = False) -> Rows[EtaRow]:
        """The newest forecasts: of operations, or of each of the copies."""
        asked = {"operation": operation_id} if operation_id else {}
        return self._rows("eta", EtaRow, **asked, **({"copies": "true"} if copies else {}))

    def transfer_history(self, hours: int = PAST_HOURS, points: int = 300) -> TransferAnswer:
        """Lag and throughput over days."""
        asked = {"hours": str(hours), "points": str(points)}
        return self._sender.ask(TransferAnswer, "/v1/pipeline/course", asked)

    def stalls(
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

    def causes(self, hours: int = DAY_HOURS) -> Rows[CauseRow]:
        """Stalls by their cause."""
        return self._rows("causes", CauseRow, hours=str(hours))

    def bottlenecks(
        self, hours: int = DAY_HOURS, *, day: date | None = None
    ) -> Rows[BottleneckRow]:
        """What held operations up, and for how long; on a day in UTC if one is named."""
        asked = {"hours": str(hours)} if day is None else {"day": day.isoformat()}
        return self._rows("bottlenecks", BottleneckRow, **asked)

    def loads(self) -> Rows[LoadRow]:
        """Each broker in its newest hour."""
        return self._rows("load", LoadRow)

    def effects(self) -> Rows[EffectRow]:
        """What each throttle did of late, and which rate is recommended."""
        return self._rows("throttles", EffectRow)

    def pairs(self, hours: int = DAY_HOURS) -> Rows[PairRow]:
        """How fast copies went from each broker to each other."""
        return self._rows("pairs", PairRow, hours=str(hours))

    def quality(self, hours: int = DAY_HOURS) -> Rows[QualityRow]:
        """Samples that were not as expected."""
        return self._rows("quality", QualityRow, hours=str(hours))

    def files_aside(self, hours: int = DAY_HOURS) -> Rows[FileAsideRow]:
        """Files of samples that were set aside."""
        return self._rows("files", FileAsideRow, hours=str(hours))

    def past(self) -> PipelinePast:
        """All that a history shows."""
        return PipelinePast(
            self.transfer_history(),
            self.etas(),
            self.stalls(),
            self.causes(),
            self.loads(),
            self.pairs(),
            self.quality(),
            *self._bottlenecks_told(),
        )

    def _bottlenecks_told(self) -> tuple[Rows[BottleneckRow], ...]:
        """Empty if the backend is of an earlier version, which does not tell them."""
        try:
            return (self.bottlenecks(),)
        except BackendError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return ()

    def _rows(self, name: str, kind: type[T], **asked: str) -> Rows[T]:
        return self._sender.ask(Rows[kind], f"/v1/pipeline/{name}", asked)  # type: ignore[valid-type]
