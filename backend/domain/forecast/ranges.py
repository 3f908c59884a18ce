"""From when copies would be done to a range that holds eight times in ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kshunt.backend.domain.forecast.capacities import YOUNG_S
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask

STAGES: Final = 5
"""Fifths of the way, in time."""
KINDS: Final[tuple[Literal["copy", "operation"], ...]] = ("copy", "operation")
COPY, OPERATION = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class Ranges:
    """Of forecasts. Arrays have shape (forecasts,); NaN where there is no end in sight."""

    stage: Floats
    """How far on the way, in time and from 0 to 1."""
    ends_s: Floats
    """Shape (forecasts, 3): p10, p50 and p90."""


def ranges(kind: int, seconds: Floats, age_s: Floats, throttled: Mask, quantiles: Floats) -> Ranges:
    """What forecasts come to.

    Args:
        kind: A place in `KINDS`.
        seconds: As they were worked out; inf where none ends.
        age_s: For how long each has been watched.
        throttled: A throttle is on its way.
        quantiles: Of ln(actual / forecast). Shape (2, STAGES, 2, 2, 3): of a copy or an operation,
            by stage, throttled or not, older or younger than `YOUNG_S`, and of these the lower
            one, the middle and the upper one.
    """
    known = np.isfinite(seconds)
    stage = np.full(len(seconds), np.nan)
    age_s = np.maximum(age_s, 0.0)
    np.divide(age_s, age_s + seconds, out=stage, where=known)
    place = stage_places(stage)
    young = age_s < YOUNG_S
    factors = np.exp(quantiles[kind, place, throttled.astype(int), young.astype(int)])
    return Ranges(stage, np.where(known, seconds, np.nan)[:, None] * factors)


def stage_places(stage: Floats) -> Ints:
    """Which fifth each stage is in."""
    return np.clip((np.nan_to_num(stage) * STAGES).astype(np.int64), 0, STAGES - 1)
