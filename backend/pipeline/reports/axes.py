"""Where an axis has its marks, and what stands there."""

from __future__ import annotations

import math
from typing import Final

from kshunt.backend.pipeline.reports.document import RATE, SECONDS
from kshunt.backend.pipeline.reports.words import bytes_text, clock, day, duration_text, rate_text

_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
_DAY_S: Final = 86_400


def value_text(value: float, unit: str) -> str:
    """A value as it stands at an axis."""
    if value == 0:
        return "0"
    if unit == SECONDS:
        return duration_text(value)
    return rate_text(value) if unit == RATE else bytes_text(value)


def value_marks(top: float, unit: str, most: int = 5) -> list[float]:
    """Round values from 0 to the first that is no less than `top`."""
    if not math.isfinite(top) or top <= 0:
        return [0.0, 1.0]
    step = _time_step(top, most) if unit == SECONDS else _step(top / most)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def time_marks(first_ms: float, last_ms: float, most: int = 7) -> list[tuple[float, str]]:
    """Round times between two, each with its text."""
    span_s = max((last_ms - first_ms) / 1000, 1.0)
    step_ms = _time_step(span_s, most) * 1000
    begin = math.ceil(first_ms / step_ms)
    marks = [step_ms * i for i in range(begin, math.floor(last_ms / step_ms) + 1)]
    if span_s > _DAY_S:
        return [(at, day(at)) for at in marks]
    return [(at, clock(at, seconds=step_ms < 60_000)) for at in marks]


def _time_step(span_s: float, most: int) -> float:
    weeks = 604_800.0 * math.ceil(span_s / most / 604_800)
    return next((float(step) for step in _STEPS_S if span_s / step <= most), weeks)


def _step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
