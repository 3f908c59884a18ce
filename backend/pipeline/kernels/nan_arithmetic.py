"""Arithmetic with numbers of which some are not known: NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.pipeline.kernels.replica_runs import NULL, Ints

Floats = NDArray[np.float64]


def ratio(over: Floats, under: Floats) -> Floats:
    """NaN where it means nothing."""
    fits = under > 0
    return np.where(fits, over / np.where(fits, under, 1.0), np.nan)


def in_bytes(messages: Floats, size: Floats) -> Floats:
    return np.where(messages == 0, 0.0, messages * size)


def first_of(*values: Floats) -> Floats:
    """The first that is known."""
    found = values[-1]
    for earlier in reversed(values[:-1]):
        found = np.where(np.isnan(earlier), found, earlier)
    return found


def half_up(values: Floats) -> Floats:
    whole = np.floor(values)
    return whole + (values - whole >= 0.5)


def whole(values: Floats) -> Ints:
    """Whole numbers; `NULL` for NaN."""
    unknown = np.isnan(values)
    return np.where(unknown, NULL, np.where(unknown, 0.0, values).astype(np.int64))
