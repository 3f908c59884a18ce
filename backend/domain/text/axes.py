"""Where an axis has its ticks, at round values, and what is written there."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from kshunt.backend.domain.text.formatting import (
    bytes_text,
    clock_text,
    count_text,
    duration_text,
    rate_text,
)

Tick: TypeAlias = tuple[float, str]
"""A value, and the text at its place on the axis."""

_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
_LEAST: Final = 1e-9
_DAY_S: Final = 86_400
NEAR: Final = 2.0
"""A limit up to this many times the highest value is drawn."""
CHANGE_MARKS: Final = {True: "┆", False: "!"}
"""What marks a change, by whether braille can be shown."""


class Unit(enum.StrEnum):
    """What the values of a plot are."""

    BYTES = "B"
    BYTES_PER_S = "B/s"
    SECONDS = "s"
    COUNT = "1"

    def text(self, value: float) -> str:
        """A value as it stands at an axis."""
        match self:
            case Unit.BYTES:
                return bytes_text(value)
            case Unit.BYTES_PER_S:
                return rate_text(value)
            case Unit.SECONDS:
                return duration_text(value)
            case Unit.COUNT:
                return count_text(value, tight=True)


def axis_top(values: Iterable[float], limits: Iterable[float] = ()) -> float:
    """The highest of the values, or of limits that are near them; NaN where nothing is known."""
    top = max((value for value in values if not math.isnan(value)), default=math.nan)
    known = [limit for limit in limits if not math.isnan(limit)]
    if top > 0:
        return max([top, *(limit for limit in known if limit <= NEAR * top)])
    return max(known, default=top)


def value_ticks(top: float, unit: Unit, most: int = 5) -> list[Tick]:
    """Round values from 0 to the first that is no less than `top`, in `most` steps at most.

    From 0 to 1 where `top` is not known, or is 0 to the eye.
    """
    if not math.isfinite(top) or top < _LEAST:
        return [(0.0, unit.text(0.0)), (1.0, unit.text(1.0))]
    step = _seconds_step(top, most) if unit is Unit.SECONDS else _decimal_step(top / most)
    if unit is Unit.COUNT:
        step = max(step, 1.0)
    values = [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]
    return [(value, unit.text(value)) for value in values]


def moment_ticks(first_ms: float, last_ms: float, most: int = 7) -> list[Tick]:
    """Round times of day between two moments, in UTC; with their day where days pass."""
    span_s = max((last_ms - first_ms) / 1000, 1.0)
    step_s = _seconds_step(span_s, most)
    moments = _multiples(first_ms, last_ms, step_s * 1000)
    if span_s > _DAY_S:
        return [(ms, f"{datetime.fromtimestamp(ms / 1000, UTC):%m-%d %H:%M}") for ms in moments]
    return [(at_ms, clock_text(at_ms, seconds=step_s < 60)) for at_ms in moments]


def duration_ticks(first_s: float, last_s: float, most: int = 5) -> list[Tick]:
    """Round durations between two; where the first is before 0, `5m00s ago`, `now`, `in 5m00s`."""
    seconds = _multiples(first_s, last_s, _seconds_step(max(last_s - first_s, 1.0), most))
    if first_s >= 0:
        return [(one, duration_text(one)) for one in seconds]
    return [(one, _from_now_text(one)) for one in seconds]


def _from_now_text(seconds: float) -> str:
    if not seconds:
        return "now"
    return f"{duration_text(-seconds)} ago" if seconds < 0 else f"in {duration_text(seconds)}"


def _multiples(first: float, last: float, step: float) -> list[float]:
    return [step * i for i in range(math.ceil(first / step), math.floor(last / step) + 1)]


def _seconds_step(span_s: float, most: int) -> float:
    weeks = 604_800.0 * math.ceil(span_s / most / 604_800)
    return next((float(step) for step in _STEPS_S if span_s / step <= most), weeks)


def _decimal_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
