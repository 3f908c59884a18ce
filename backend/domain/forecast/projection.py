"""How bytes will become less until a forecast's end, and until both ends of its range.

The course to the middle of the range is the model's. The other two are the same, run faster or
slower. Without arrays: a dashboard draws it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd

POINTS: Final = 48
"""Of each course, at even distances."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Bytes that will be left. Each has a value for each time."""

    at_ms: tuple[int, ...]
    """Milliseconds since the epoch, from when the forecast was made until the latest end."""
    early_bytes: tuple[float, ...]
    expected_bytes: tuple[float, ...]
    late_bytes: tuple[float, ...]


def projection(end: ExpectedEnd) -> Projection | None:
    """Of a forecast; None where it has no end."""
    low, middle, high = end.p10_s, end.p50_s, end.p90_s
    if low is None or middle is None or high is None or not end.burndown or middle <= 0:
        return None
    last_s = max(high, middle)
    times_s = [last_s * place / (POINTS - 1) for place in range(POINTS)]

    def course(end_s: float) -> tuple[float, ...]:
        stretch = middle / max(end_s, 0.1)
        return tuple(_left_at(end.burndown, at_s * stretch) for at_s in times_s)

    at_ms = tuple(end.at_ms + round(at_s * 1000) for at_s in times_s)
    return Projection(at_ms, course(low), course(middle), course(high))


def _left_at(burndown: Sequence[tuple[float, int]], at_s: float) -> float:
    """Bytes that are left then, in straight lines between the points."""
    place = bisect_right(burndown, at_s, key=lambda point: point[0])
    if place == 0:
        return float(burndown[0][1])
    if place == len(burndown):
        return float(burndown[-1][1])
    (from_s, before), (to_s, after) = burndown[place - 1], burndown[place]
    return before + (after - before) * (at_s - from_s) / (to_s - from_s)
