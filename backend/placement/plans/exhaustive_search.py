"""The best of all choices, where there are few enough to look at each.

Goals
    On a small cluster a single partition is a large part of a broker, and filling by size can miss
    the best answer by much. There, take the best.
Constraints
    At most `STATES_MAX` combinations, and `CELLS_MAX` numbers at a time: a few milliseconds.
Algorithm
    Every partition has a list of choices, the first of which is to leave it. All combinations are
    formed by outer sums of what each choice adds to the loads, costs and takes of room. The best
    is the one furthest inside the band, then the cheapest, then the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STATES_MAX = 100_000
CELLS_MAX = 1_000_000


@dataclass(frozen=True, eq=False)
class Choices:
    """What can be done with one partition; the first choice is to leave it."""

    loads: Floats
    """What it then adds to each bin. Shape (choices, bins)."""
    cost: Floats
    """Bytes that move. Shape (choices,)."""
    added: Floats
    """Bytes that each bin has to find room for. Shape (choices, bins)."""


def few_enough(counts: Sequence[int], bins: int) -> bool:
    """Whether all combinations of that many choices can be looked at."""
    states = prod(counts)
    return states <= STATES_MAX and states * bins <= CELLS_MAX


def best_of_all(
    choices: Sequence[Choices],
    loads: Floats,
    room: Floats,
    outside: Callable[[Floats], Floats],
    budget: float,
) -> tuple[int, ...]:
    """Which choice to take for each partition.

    Args:
        choices: of each partition; together `few_enough`.
        loads: of each bin without these partitions. Shape (bins,).
        room: bytes that may be added to each bin. Shape (bins,).
        outside: how far loads of shape (states, bins) are from the goal. Shape (states,).
        budget: bytes that may move.
    """
    sums, added, cost = loads[None, :], np.zeros((1, len(loads))), np.zeros(1)
    for each in choices:
        sums = _outer(sums, each.loads)
        added = _outer(added, each.added)
        cost = (cost[:, None] + each.cost[None, :]).ravel()
    allowed = (cost <= budget) & (added <= room + 1e-6).all(axis=1)
    # To leave everything as it is moves nothing, and may be done where disks are too full already.
    allowed[0] = True
    scale = max(float(np.abs(sums).max(initial=0.0)), 1.0)
    far = np.where(allowed, np.round(outside(sums) / scale, 9), np.inf)
    best = int(np.lexsort((cost, far))[0])
    return tuple(int(place) for place in np.unravel_index(best, [len(c.cost) for c in choices]))


def _outer(states: Floats, choices: Floats) -> Floats:
    bins = states.shape[1]
    return (states[:, None, :] + choices[None, :, :]).reshape(-1, bins)
