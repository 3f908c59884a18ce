"""A cluster's own calibration, from how the forecasts of its operations turned out. Pure.

Goals
    Ranges that hold eight times in ten on this cluster.
Constraints
    A cluster has some dozens of operations, and the shipped calibration has a bin for each stage,
    limit and amount of writes. So few operations cannot fill bins of their own.
Algorithm
    The shipped bins say how ranges differ from each other. Three numbers say how the cluster
    differs from all of them: how much longer operations take than forecast, and how much wider
    each side of the ranges must be. Each comes from ln(actual / model), less the middle of the
    forecast's bin; for a side, in widths of that side of the bin. Every operation weighs the same.
    Copies are moved alike, so that an operation and its last copy agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.calibration import EXACT
from kshunt.backend.domain.forecast.fair_shares import Floats
from kshunt.backend.domain.forecast.ranges import HOLDS, OPERATION, STAGES, WRITES
from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.forecast.scoring.residual_quantiles import (
    levels_of,
    shares,
    weighted_quantiles,
)

NARROWEST: Final = 0.25
"""Of a shipped width."""
WIDEST: Final = 4.0
"""Of a shipped width."""
LEAST_WIDTH: Final = 0.02
"""A side of a bin is taken to be at least this wide, as a logarithm."""
LEAST_S: Final = 1.0
"""An end within less than a look is taken for this."""


@dataclass(frozen=True, eq=False)
class OwnCalibration:
    """What a cluster's operations make of the shipped calibration."""

    operations: int
    """Those that it was made from."""
    quantiles: Floats
    """As `ranges` takes them."""


def own_calibration(
    operations: Iterable[Iterable[KeptForecast]], shipped: Floats, fewest: int
) -> OwnCalibration | None:
    """The one that these operations make; None where fewer than `fewest` have a forecast that
    counts.

    `shipped` are quantiles as `ranges` takes them.
    """
    rows = [
        (number, one)
        for number, kept in enumerate(operations)
        for one in kept
        if one.right is not None
    ]
    numbers = np.array([number for number, _ in rows], np.int64)
    count = len(np.unique(numbers))
    if not count or count < fewest:
        return None
    weights, levels = shares(numbers), levels_of(count)
    bins = np.array([_bin_of(one, shipped) for _, one in rows])
    middle = bins[:, 1]
    off = np.array([_log_ratio(one) for _, one in rows]) - middle
    median = weighted_quantiles(off, weights, levels)[1]
    shift = math.copysign(max(abs(median) - EXACT, 0.0), median)
    below = (off - shift) / np.maximum(middle - bins[:, 0], LEAST_WIDTH)
    above = (off - shift) / np.maximum(bins[:, 2] - middle, LEAST_WIDTH)
    early = -weighted_quantiles(below, weights, levels)[0]
    late = weighted_quantiles(above, weights, levels)[2]
    return OwnCalibration(count, _moved(shipped, shift, early, late))


def _bin_of(one: KeptForecast, shipped: Floats) -> Floats:
    stage = min(one.stage, STAGES - 1)
    found: Floats = shipped[OPERATION, stage, HOLDS.index(one.held_by), WRITES.index(one.writes)]
    return found


def _log_ratio(one: KeptForecast) -> float:
    return math.log(max(one.actual_s or 0.0, LEAST_S) / max(one.model_s, LEAST_S))


def _moved(shipped: Floats, shift: float, early: float, late: float) -> Floats:
    """All bins, moved by `shift`; their sides are `early` and `late` times as wide."""
    middle = shipped[..., 1]
    low = (middle - shipped[..., 0]) * min(max(early, NARROWEST), WIDEST)
    high = (shipped[..., 2] - middle) * min(max(late, NARROWEST), WIDEST)
    return np.stack([middle + shift - low, middle + shift, middle + shift + high], axis=-1)
