"""From when copies would be done to a range that holds eight times in ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, Wander

STAGES: Final = 5
"""Fifths of the way, in time."""
Kind: TypeAlias = Literal["copy", "operation"]
HOLDS: Final[tuple[HeldBy, ...]] = get_args(HeldBy)
OTHER, THROTTLE, TURN = range(len(HOLDS))
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
COPY, OPERATION = range(len(KINDS))

WANDERS: Final[tuple[Wander, ...]] = get_args(Wander)
"""An end that has not moved, and that what is written cannot move much, is right more often."""
_, UNEASY, RESTLESS = range(len(WANDERS))
WANDER_S: Final = 30.0
"""Lately."""
FIRST_S: Final = 12.0
"""Copies still begin, and bursts of a throttle have not passed: nobody has seen much."""
CALM_MOST: Final = 0.04
UNEASY_MOST: Final = 0.12
QUANTILES: Final = (len(KINDS), STAGES, len(HOLDS), len(WANDERS), 3)
"""The shape of what a calibration says; zeros say nothing."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Of forecasts. Arrays have shape (forecasts,); NaN where there is no end in sight."""

    stage: Floats
    """How far on the way, in time and from 0 to 1."""
    ends_s: Floats
    """Shape (forecasts, 3): p10, p50 and p90."""


def ranges(
    kind: int, seconds: Floats, age_s: Floats, held_by: Ints, wander: Ints, quantiles: Floats
) -> Ranges:
    """What forecasts come to.

    Args:
        kind: A place in `KINDS`.
        seconds: The model's forecasts. An entry is inf where a copy or operation never ends.
        age_s: For how long each has been watched.
        held_by: What holds each up. It is a place in `HOLDS`.
        wander: How much its end moves. It is a place in `WANDERS`.
        quantiles: Of ln(actual / forecast), of shape `QUANTILES`. The axes are: copy or operation,
            stage, what holds it up, how its end wanders. The last axis has the lower, the middle
            and the upper quantile.
    """
    known = np.isfinite(seconds)
    stage = np.full(len(seconds), np.nan)
    age_s = np.maximum(age_s, 0.0)
    np.divide(age_s, age_s + seconds, out=stage, where=known)
    found = quantiles[kind, stage_places(stage), held_by, wander]
    # The stage is a guess until something has been seen: the range is that of all stages alike.
    of_all = quantiles[kind].mean(axis=0)[held_by, wander]
    factors = np.exp(np.where((age_s < FIRST_S)[:, None], of_all, found))
    return Ranges(stage, np.where(known, seconds, np.nan)[:, None] * factors)


def held_by(throttle: Mask, waits: Mask) -> Ints:
    """Places in `HOLDS`: of what a throttle gives no more, and of what waits for its turn."""
    return np.where(waits, TURN, np.where(throttle, THROTTLE, OTHER)).astype(np.int64)


def wander_places(share: Floats, age_s: Floats) -> Ints:
    """Places in `WANDERS` of ends that move, or may move, by a share of what is left until them.

    What has not been watched for long has had no time to move.
    """
    found = np.digitize(np.nan_to_num(share, nan=np.inf), (CALM_MOST, UNEASY_MOST))
    age_s = np.nan_to_num(age_s)
    found = np.where(age_s < WANDER_S, np.maximum(found, UNEASY), found)
    return np.where(age_s < FIRST_S, RESTLESS, found).astype(np.int64)


def unwatched(kind: Ints | int, age_s: Floats) -> Ints:
    """Places in `WANDERS` where nobody has looked how ends move: of copies by their age.

    An operation's end may have moved.
    """
    old = (np.asarray(kind) == COPY) & (np.nan_to_num(age_s) >= WANDER_S)
    return np.where(old, UNEASY, RESTLESS).astype(np.int64)


def stage_places(stage: Floats) -> Ints:
    """Which fifth each stage is in."""
    return np.clip((np.nan_to_num(stage) * STAGES).astype(np.int64), 0, STAGES - 1)
