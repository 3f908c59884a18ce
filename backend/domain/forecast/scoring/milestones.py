"""When a forecast of an operation is kept, when it is void, and how it turned out. Pure.

Algorithm
    The way is measured in bytes: what is left, of the most that was left at any time. At each of
    `POINTS` one forecast is kept. If an operation passes several points between two looks, the
    forecast counts for the last one. If there is no forecast yet at a point, the next one counts.
    A forecast is of throttles as they are. Once one of them has changed, it is void.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kshunt.backend.domain.forecast.ranges import STAGES
from kshunt.backend.domain.forecast.scoring.kept_forecasts import POINTS, KeptForecast, VoidReason
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd

SHORTEST_S: Final = 5.0
"""An end that is nearer is not forecast: it is about as long as two looks."""

Kept = tuple[KeptForecast, ...]


def milestone(
    end: ExpectedEnd, of_bytes: int, kept: Sequence[KeptForecast], throttles: str
) -> KeptForecast | None:
    """The forecast to keep now; None where no point was reached, or nothing is forecast.

    Args:
        end: the operation's forecast.
        of_bytes: the most that was left of it at any time.
        kept: what was kept of it.
        throttles: a digest of the throttles in force.
    """
    low, middle, high, model_s = end.p10_s, end.p50_s, end.p90_s, end.model_s
    if low is None or middle is None or high is None or model_s is None or end.left_bytes is None:
        return None
    if end.never or end.unknown or end.held or middle < SHORTEST_S:
        return None
    way = 1 - end.left_bytes / of_bytes if of_bytes else 0.0
    point = max((one for one in POINTS if one <= way), default=None)
    if point is None or any(one.point >= point for one in kept):
        return None
    return KeptForecast(
        point=point,
        made_ms=end.at_ms,
        p10_s=low,
        p50_s=middle,
        p90_s=high,
        model_s=model_s,
        stage=_stage(end.watched_s, model_s),
        held_by=end.held_by,
        writes=end.writes,
        bottleneck=end.bottlenecks[0].resource.kind if end.bottlenecks else None,
        left_bytes=end.left_bytes,
        of_bytes=of_bytes,
        throttles=throttles,
    )


def _stage(watched_s: float, model_s: float) -> int:
    """The place that `ranges` gives it."""
    way = watched_s / max(watched_s + model_s, 0.1)
    return min(int(way * STAGES), STAGES - 1)


def voided(kept: Iterable[KeptForecast], throttles: str) -> Kept:
    """After a look at the throttles: open forecasts that assume others are void."""
    return tuple(
        replace(one, void=VoidReason.THROTTLE_CHANGED)
        if is_open(one) and one.throttles != throttles
        else one
        for one in kept
    )


def paused(kept: Iterable[KeptForecast]) -> Kept:
    """The operation is paused: no open forecast counts."""
    return tuple(replace(one, void=VoidReason.PAUSED) if is_open(one) else one for one in kept)


def completed(kept: Iterable[KeptForecast], at_ms: int) -> Kept:
    """The last copy has arrived."""
    return tuple(
        replace(one, actual_s=max(at_ms - one.made_ms, 0) / 1000) if is_open(one) else one
        for one in kept
    )


def not_completed(kept: Iterable[KeptForecast]) -> Kept:
    """The operation did not do all that was asked, so that no forecast of it counts."""
    return tuple(
        one if one.void is not None else replace(one, void=VoidReason.NOT_COMPLETED) for one in kept
    )


def is_open(one: KeptForecast) -> bool:
    """Whether nobody knows yet how it turns out."""
    return one.void is None and one.actual_s is None
