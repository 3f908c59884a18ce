"""When copies that share what limits them will have caught up: a fluid, let run to its end.

Goals: each copy gets its max-min fair share of what it passes through; one that ends leaves its
share to others; each has to take what its leader goes on writing, too.

Constraints: 20,000 copies within about a second; numpy only.

Algorithm: copies that pass through the same resources get the same, so shares are worked out by
groups of them. Progressive filling: a resource offers what it has left in equal parts, and those
that are the narrowest for all their groups close them, until all are closed (Bertsekas and
Gallager, Data Networks, section 6.5.2). Rates hold until the next copies end. Where there are
many, some end together: a step goes to where the first `1 / PART` of them have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PART: Final = 8
_SLACK: Final = 1e-9
_EVEN: Final = 1e-6
"""A rate that is above what is written by no more than this share of it comes no nearer."""


@dataclass(frozen=True, eq=False)
class FluidCopies:
    """What is to be copied. Arrays have shape (copies,) unless said otherwise."""

    remaining: Floats
    """Bytes."""
    written: Floats
    """What its leader takes meanwhile, B/s."""
    passes: Ints
    """Shape (copies, k): the resources that it passes through; the last resource is without
    limit, and fills places that are not needed."""
    after: Floats
    """Shape (copies, k): what each of them loses for good once the copy has ended, B/s."""


@dataclass(frozen=True, eq=False)
class FluidRun:
    """How it goes. Shape (copies,)."""

    seconds: Floats
    """Until each has all that its leader has; inf: never."""
    rate: Floats
    """What each gets at first, B/s; inf where nothing limits it."""
    tight: Ints
    """The resource that gives it no more; the last one where nothing limits it."""


def fluid_run(copies: FluidCopies, capacity: Floats) -> FluidRun:
    """Let them run. `capacity` has shape (resources,), B/s, its last one inf."""
    groups, group = np.unique(copies.passes, axis=0, return_inverse=True)
    group = group.reshape(-1)
    left, remaining = capacity.copy(), copies.remaining.copy()
    seconds = np.full(len(remaining), np.inf)
    active = np.arange(len(remaining))
    now_s, first = 0.0, None
    while len(active):
        end_at_once = max(1, len(active) // PART)
        counts = np.bincount(group[active], minlength=len(groups))
        rates, tight = shares(groups, counts, left)
        if first is None:
            first = rates[group], tight[group]
        net = rates[group[active]] - copies.written[active]
        closing = net > _EVEN * copies.written[active]
        need = np.full(len(active), np.inf)
        np.divide(remaining[active], net, out=need, where=closing & np.isfinite(net))
        need[np.isinf(net)] = 0.0
        step_s = float(np.partition(need, end_at_once - 1)[end_at_once - 1])
        if np.isinf(step_s):
            step_s = float(need.min())
        if np.isinf(step_s):
            break
        ended = need <= step_s
        seconds[active[ended]] = now_s + need[ended]
        now_s += step_s
        gone, active = active[ended], active[~ended]
        remaining[active] = np.maximum(remaining[active] - net[~ended] * step_s, 0.0)
        lost = np.bincount(copies.passes[gone].ravel(), copies.after[gone].ravel(), len(left))
        left = np.maximum(left - lost, 0.0)
    if first is None:
        first = np.empty(0), np.empty(0, np.int64)
    return FluidRun(seconds, *first)


def shares(passes: Ints, counts: Ints, capacity: Floats) -> tuple[Floats, Ints]:
    """What a copy of each group gets, and the resource that gives it no more.

    `passes` has shape (groups, k), `counts` says how many copies each has; a group of none gets 0.
    """
    rates, tight = np.zeros(len(passes)), np.full(len(passes), len(capacity) - 1)
    left, size = capacity.copy(), len(capacity)
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
        given = np.where(np.isfinite(level[closing]), level[closing] * weights[rows], 0.0)
        left -= np.bincount(passes[rows].ravel(), np.repeat(given, wide), size)
        np.maximum(left, 0.0, out=left)
        open_ = open_[~closing]
    return rates, tight


def _final(flat: Ints, offered: Floats, level: Floats, offers: Floats) -> NDArray[np.bool_]:
    """Groups that pass through a resource that none of its groups finds wider than another."""
    lowest = np.full(len(offers), np.inf)
    np.minimum.at(lowest, flat, np.repeat(level, offered.shape[1]))
    narrow = lowest >= offers * (1 - _SLACK)
    tight: Any = narrow[flat].reshape(offered.shape) & (offered <= (level * (1 + _SLACK))[:, None])
    final: NDArray[np.bool_] = tight.any(axis=1)
    return final
