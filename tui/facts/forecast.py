"""What the data pipeline forecasts of moves that run, counted from the present moment, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kshunt.backend.domain.pipeline.delivered import ETA_FRESH_MS, EtaRow
from kshunt.backend.domain.text.formatting import NOT_AT_THIS_RATE, duration_text
from kshunt.tui.text.fitting import printable


@dataclass(frozen=True, slots=True)
class PipelineForecast:
    """When something will be done, from now on."""

    p10_s: float
    p50_s: float
    p90_s: float
    """Nine in ten are done so soon; infinite for never."""
    age_ms: int
    bound: str = ""
    """What holds it up."""
    why: str = ""
    """Why there is no end in sight."""

    @property
    def never(self) -> bool:
        """It is not done before something changes."""
        return math.isinf(self.p50_s)


def fresh(rows: Iterable[EtaRow], now_ms: int) -> tuple[EtaRow, ...]:
    """The rows that may be shown for what runs."""
    return tuple(row for row in rows if now_ms - row.at_ms < ETA_FRESH_MS)


def of_operation(rows: Iterable[EtaRow], operation_id: str, now_ms: int) -> PipelineForecast | None:
    """An operation's; None where nobody forecasts it, or not of late."""
    row = next((row for row in fresh(rows, now_ms) if row.operation_id == operation_id), None)
    return None if row is None else _forecast(row, now_ms)


def _forecast(row: EtaRow, now_ms: int) -> PipelineForecast | None:
    """None where the pipeline says that it does not know."""
    age_ms = max(now_ms - row.at_ms, 0)
    if row.p50_s is None:
        if not row.never:
            return None
        return PipelineForecast(
            math.inf, math.inf, math.inf, age_ms, row.bound or "", row.why or ""
        )
    ends = (row.p10_s, row.p50_s, row.p90_s)
    low, middle, high = (math.inf if end is None else max(end - age_ms / 1000, 0.0) for end in ends)
    return PipelineForecast(low, middle, high, age_ms, row.bound or "", row.why or "")


def range_text(forecast: PipelineForecast, to: str = " to ", never: str = NOT_AT_THIS_RATE) -> str:
    """`12m00s to 31m00s`; or that it never ends."""
    if forecast.never:
        return never
    low, high = duration_text(forecast.p10_s), duration_text(forecast.p90_s)
    return low if low == high else f"{low}{to}{high}"


def end_text(forecast: PipelineForecast) -> str:
    """The range and its middle; or why there is no end in sight."""
    if forecast.never:
        return printable(forecast.why or NOT_AT_THIS_RATE)
    return f"{range_text(forecast)} (8 in 10), half by {duration_text(forecast.p50_s)}"


def age_text(age_ms: float) -> str:
    """An age that does not change with every second: `<10s`, `40s`, `3m`, `2h10m`, `3d02h`."""
    seconds = max(age_ms, 0) / 1000
    if seconds < 10:
        return "<10s"
    if seconds < 60:
        return f"{seconds // 10 * 10:.0f}s"
    if seconds < 3600:
        return f"{seconds // 60:.0f}m"
    return duration_text(seconds // 600 * 600 if seconds < 86_400 else seconds)
