"""Max-min fair shares: what each flow gets of the resources it passes through.

Goals: no resource is overdrawn, and no flow gets more than it can use. A flow gets less than
another only where a resource they share, or its own limit, leaves it no more.

Constraints: tens of thousands of flows within milliseconds; the same input gives the same bits.

Algorithm: progressive filling in rounds. A resource offers what it has left in equal parts to its
open flows; a flow's level is the least of its offers. Offers only rise while others close, so
every flow whose limit is not above its level closes at its limit immediately. Where there is none,
every resource that is the narrowest one for all of its flows closes them at its offer. The
narrowest resource always fulfils this, so each round closes something. Source: Bertsekas and
Gallager, Data Networks, section 6.5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SLACK = 1e-9
"""Relative rounding error up to which two rates count as equal."""

Rates = NDArray[np.float64]
Passes = NDArray[np.int32]


def max_min(limits: Rates, passes: Passes, capacity: Rates) -> Rates:
    """The rate of each flow.

    Args:
        limits: shape (flows,), bytes/s, finite: what a flow can use at most.
        passes: shape (flows, k): the resources that a flow passes through, each once. Places
            that a flow does not need hold a resource of infinite capacity.
        capacity: shape (resources,), bytes/s, 0 or more.
    """
    rates = np.zeros(len(limits))
    left = capacity.copy()
    flows = np.arange(len(limits))
    while len(flows):
        through = passes[flows]
        users = np.bincount(through.ravel(), minlength=len(left))
        offers = np.where(users > 0, left / np.maximum(users, 1), np.inf)
        offered = offers[through]
        level = offered.min(axis=1)
        closing = limits[flows] <= level
        if closing.any():
            given = limits[flows][closing]
        else:
            closing = _at_narrowest(through, offered, level, offers)
            given = level[closing]
        rates[flows[closing]] = given
        left = np.maximum(left - load(through[closing], given, len(left)), 0.0)
        flows = flows[~closing]
    return rates


def load(passes: Passes, rates: Rates, resources: int) -> Rates:
    """What flows draw from each resource, bytes/s. Shape (resources,)."""
    weights = np.repeat(rates, passes.shape[1])
    return sums(passes.ravel(), weights, resources)


def sums(places: NDArray[np.int32], weights: Rates, count: int) -> Rates:
    """The sum of the weights at each place. Shape (count,)."""
    out: Rates = np.bincount(places, weights, count).astype(np.float64, copy=False)
    return out


def highest(passes: Passes, rates: Rates, resources: int) -> Rates:
    """The largest rate of a flow through each resource, 0 without one. Shape (resources,)."""
    top = np.zeros(resources)
    for column in passes.T:
        np.maximum.at(top, column, rates)
    return top


def _at_narrowest(
    through: Passes, offered: Rates, level: Rates, offers: Rates
) -> NDArray[np.bool_]:
    """Which flows pass a resource that none of its flows finds wider than another."""
    lowest = np.full(len(offers), np.inf)
    for column in through.T:
        np.minimum.at(lowest, column, level)
    narrow = lowest >= offers * (1 - _SLACK)
    tight = narrow[through] & (offered <= (level * (1 + _SLACK))[:, None])
    closing: NDArray[np.bool_] = np.logical_or.reduce(tight, axis=1)
    return closing
