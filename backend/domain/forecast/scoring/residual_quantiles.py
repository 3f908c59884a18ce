"""Quantiles of how forecasts turned out, where each operation weighs the same.

The outer ones are taken a little further out, as for a conformal prediction, since there are only
a few operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.calibration import LEVELS
from kshunt.backend.domain.forecast.fair_shares import Floats


def levels_of(operations: int) -> tuple[float, ...]:
    """The levels with what a next operation may lie outside of these."""
    further = 1 + 1 / operations
    low, middle, high = LEVELS
    return max(0.0, 1 - (1 - low) * further), middle, min(1.0, high * further)


def shares(operation: NDArray[np.int64]) -> Floats:
    """Weights that add up to 1 for each operation."""
    _, places, counts = np.unique(operation, return_inverse=True, return_counts=True)
    found: Floats = 1.0 / counts[places]
    return found


def weighted_quantiles(
    values: Floats, weights: Floats, levels: tuple[float, ...]
) -> tuple[float, ...]:
    """The values below which these shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    reached = (reached - 0.5 * weights[order]) / reached[-1]
    return tuple(float(np.interp(level, reached, values[order])) for level in levels)
