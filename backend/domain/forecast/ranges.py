"""From when copies would be done to a range that holds eight times in ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from kshunt.backend.domain.forecast.copies import Copies
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, Writes

STAGES: Final = 5
"""Fifths of the way, in time."""
Kind: TypeAlias = Literal["copy", "operation"]
HOLDS: Final[tuple[HeldBy, ...]] = get_args(HeldBy)
OTHER, THROTTLE, TURN = range(len(HOLDS))
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
COPY, OPERATION = range(len(KINDS))

WRITES: Final[tuple[Writes, ...]] = get_args(Writes)
"""What is written may change: the more it is, the further an end can move. What has changed
lately will change again."""
NONE, SOME, MUCH, VARYING = range(len(WRITES))
NONE_MOST: Final = 0.02
SOME_MOST: Final = 1.0
"""What is written until the end, as a multiple of what copies lack now."""
VARIES_FROM: Final = 0.1
"""By such a share the last half minute differs from what is expected to be written."""
QUANTILES: Final = (len(KINDS), STAGES, len(HOLDS), len(WRITES), 3)
"""The shape of what a calibration says; zeros say nothing."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Of forecasts. Arrays have shape (forecasts,); NaN where there is no end in sight."""

    stage: Floats
    """How far on the way, in time and from 0 to 1."""
    ends_s: Floats
    """Shape (forecasts, 3): p10, p50 and p90."""


def ranges(
    kind: int, seconds: Floats, age_s: Floats, held_by: Ints, writes: Ints, quantiles: Floats
) -> Ranges:
    """What forecasts come to.

    Args:
        kind: A place in `KINDS`.
        seconds: The model's forecasts. An entry is inf where a copy or operation never ends.
        age_s: For how long each has been watched.
        held_by: What holds each up. It is a place in `HOLDS`.
        writes: What is written until each ends. It is a place in `WRITES`; of copies it is `SOME`,
            as they are not told apart by it.
        quantiles: Of ln(actual / forecast), of shape `QUANTILES`. The axes are: copy or operation,
            stage, what holds it up, what is written. The last axis has the lower, the middle and
            the upper quantile.
    """
    known = np.isfinite(seconds)
    stage = np.full(len(seconds), np.nan)
    age_s = np.maximum(age_s, 0.0)
    np.divide(age_s, age_s + seconds, out=stage, where=known)
    factors = np.exp(quantiles[kind, stage_places(stage), held_by, writes])
    return Ranges(stage, np.where(known, seconds, np.nan)[:, None] * factors)


def held_by(throttle: Mask, waits: Mask) -> Ints:
    """Places in `HOLDS`: of what a throttle gives no more, and of what waits for its turn."""
    return np.where(waits, TURN, np.where(throttle, THROTTLE, OTHER)).astype(np.int64)


def writes_place(copies: Copies, rows: Ints, end_s: float) -> int:
    """The place in `WRITES` of copies that are done together; `SOME` where it is not known.

    `end_s` is when, in seconds; inf: never.
    """
    written = copies.written_bytes_per_s[rows]
    if not np.isfinite(end_s) or np.isnan(written).all():
        return SOME
    together = float(np.nansum(written))
    lacks = float(np.nansum(copies.remaining_bytes[rows]))
    share = end_s * together / max(lacks, 1.0)
    if share <= NONE_MOST:
        return NONE
    change = copies.written_lately_bytes_per_s[rows] - written
    if abs(float(np.nansum(change))) > VARIES_FROM * together:
        return VARYING
    return SOME if share <= SOME_MOST else MUCH


def stage_places(stage: Floats) -> Ints:
    """Which fifth each stage is in."""
    return np.clip((np.nan_to_num(stage) * STAGES).astype(np.int64), 0, STAGES - 1)
