"""Max-min fair shares of what copies pass through, by progressive filling.

A resource offers what it has left in equal parts. Those that are the narrowest for all their
copies close them, until all are closed (Bertsekas and Gallager, Data Networks, section 6.5.2).
Copies that pass through the same resources get the same, so shares are worked out by groups.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SLACK: Final = 1e-9


def fair_shares(passes: Ints, counts: Ints, capacity: Floats) -> tuple[Floats, Ints]:
    """What a copy of each group gets, and the resource that gives it no more.

    Args:
        passes: Shape (groups, k): the resources of each group. The last resource has no limit.
            It fills places that are not needed.
        counts: Copies of each group. A group of none gets 0.
        capacity: Bytes a second of each resource; inf for the last one. One below 0 gives nothing.
    """
    rates, tight = np.zeros(len(passes)), np.full(len(passes), len(capacity) - 1)
    left, size = np.maximum(capacity, 0.0), len(capacity)
    open_ = np.flatnonzero(counts)
    weights = counts.astype(np.float64)
    wide = passes.shape[1]
    while len(open_):
        through = passes[open_]
        flat = through.ravel()
        users = np.bincount(flat, np.repeat(weights[open_], wide), size)
        offers = np.full(size, np.inf)
        np.divide(left, users, out=offers, where=users > 0)
        offered = offers[through]
        narrowest = offered.argmin(axis=1)
        level = offered[np.arange(len(open_)), narrowest]
        closing = _final(flat, offered, level, offers)
        rows = open_[closing]
        rates[rows] = level[closing]
        tight[rows] = through[np.arange(len(open_)), narrowest][closing]
        taken = np.where(np.isfinite(level[closing]), level[closing] * weights[rows], 0.0)
        left -= np.bincount(passes[rows].ravel(), np.repeat(taken, wide), size)
        np.maximum(left, 0.0, out=left)
        open_ = open_[~closing]
    return rates, tight


def _final(flat: Ints, offered: Floats, level: Floats, offers: Floats) -> Mask:
    """Groups that pass through a resource that none of its groups finds wider than another."""
    lowest = np.full(len(offers), np.inf)
    np.minimum.at(lowest, flat, np.repeat(level, offered.shape[1]))
    narrow = lowest >= offers * (1 - _SLACK)
    tight: Any = narrow[flat].reshape(offered.shape) & (offered <= (level * (1 + _SLACK))[:, None])
    final: Mask = tight.any(axis=1)
    return final
