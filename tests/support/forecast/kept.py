"""Forecasts that were kept of operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.replicas.expected_end_values import ResourceKind

_ONE: Final = KeptForecast(
    point=0.25,
    made_ms=1_760_011_200_000,
    p10_s=780.0,
    p50_s=900.0,
    p90_s=1_200.0,
    model_s=900.0,
    stage=1,
    held_by="throttle",
    writes="some",
    bottleneck=ResourceKind.LEADER_THROTTLE,
    left_bytes=75_000_000,
    of_bytes=100_000_000,
    throttles="0123456789abcdef",
)


def kept_forecast(**changes: Any) -> KeptForecast:
    """One at a quarter of the way at 12:00 UTC, for 12:15 (12:13-12:20); it is open."""
    return replace(_ONE, **changes)
