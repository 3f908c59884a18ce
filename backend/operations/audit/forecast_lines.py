"""The audit's lines about forecasts: what was forecast of an operation, and how it turned out."""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent
from kshunt.backend.domain.forecast.scoring.kept_forecasts import (
    KeptForecast,
    point_text,
    tally_text,
)
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.text.formatting import moment_text


def forecast_line(operation: Operation, one: KeptForecast, backend: str) -> AuditEntry:
    """The forecast that was kept at a point of the operation's way."""
    low, middle, high = (
        moment_text(one.made_ms + round(seconds * 1000))
        for seconds in (one.p10_s, one.p50_s, one.p90_s)
    )
    held = "" if one.bottleneck is None else f"; limit: {one.bottleneck.replace('_', ' ')}"
    words = f"at {point_text(one.point)}: done about {middle} ({low} to {high}){held}"
    return _line(operation, words, backend)


def tally_line(
    before: Operation | None, after: Operation, forecasts: Mapping[str, Kept], backend: str
) -> AuditEntry | None:
    """How the forecasts of an operation turned out that ends; None where there are none."""
    ends = before is not None and after.state.ended and not before.state.ended
    kept = forecasts.get(after.id, ())
    return _line(after, tally_text(kept), backend) if ends and kept else None


def _line(operation: Operation, words: str, backend: str) -> AuditEntry:
    return AuditEntry(
        time_ms=0,
        number=0,
        event=AuditEvent.FORECAST,
        operation_id=operation.id,
        kind=operation.kind.value,
        outcome=words,
        backend=backend,
    )
