"""Copies that share what limits them, let run to their ends.

Goals
    Each copy gets its max-min fair share of what it passes through. One that ends leaves its share
    to others, and its place to a move that waits. Each also has to copy what is written to its
    leader meanwhile.
Constraints
    2,000 copies within some 30 ms, 20,000 within half a second; numpy only.
Algorithm
    Rates hold until the next copies end. Where there are many, a step goes to where the first
    `1 / PART` of them have ended, and not in more than about `STEPS` steps through those that
    wait. What the ended ones left unused within the step goes to the others that pass there.
    Where leaders change, a step ends there as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask, fair_shares
from kshunt.backend.domain.forecast.turns import MoveQueue, Turns

PART: Final = 8
STEPS: Final = 32
CHECKS: Final = 8
"""After this many checks of leaders, each later copy begins at its next leader."""
_EVEN: Final = 1e-6
"""A rate that is above what is written by no more than this share of it comes no nearer."""


@dataclass(frozen=True, eq=False)
class Flows:
    """What is to be copied. Arrays have shape (copies,) unless said otherwise."""

    remaining_bytes: Floats
    written_bytes_per_s: Floats
    """What producers write to its leader during the copy."""
    passes: Ints
    """Shape (copies, k): the resources that it passes through; the last resource is without
    limit, and fills places that are not needed."""
    after_bytes_per_s: Floats
    """Shape (copies, k): what each of them loses for good once the copy has ended; gains are
    below 0."""


@dataclass(frozen=True, eq=False)
class LeaderChanges:
    """Copies that get another leader before they arrive: by checks that come again and again."""

    first_s: float
    """Until the next check."""
    every_s: float
    which: Mask
    """Shape (copies,)."""
    passes: Ints
    """As in `Flows`, at the next leader."""
    after_bytes_per_s: Floats
    """As in `Flows`, at the next leader."""
    in_sync_bytes_per_s: Floats
    """What followers in the ISR take of the first resource, at either leader. Shape (copies,)."""


@dataclass(frozen=True, eq=False)
class Moment:
    """From when on rates hold. Arrays have shape (active copies,)."""

    at_s: float
    active: Ints
    """Places of those that are copied."""
    tight: Ints
    """The resource that gives each no more."""
    remaining_bytes: Floats


@dataclass(frozen=True, eq=False)
class FluidRun:
    """How it goes. Arrays have shape (copies,)."""

    seconds: Floats
    """Until each has all that its leader has; inf: never."""
    begins_s: Floats
    """Until its turn comes; inf: it does not."""
    rate_bytes_per_s: Floats
    """What each gets at first; inf where nothing limits it, 0 where it waits."""
    tight: Ints
    """The resource that gives it no more then; the last one where nothing limits it."""
    moments: tuple[Moment, ...]


def fluid_run(
    flows: Flows,
    capacity: Floats,
    queue: MoveQueue | None = None,
    changes: LeaderChanges | None = None,
) -> FluidRun:
    """Let them run; those of moves in `queue` once their turn comes.

    `capacity` has shape (resources,), bytes a second, its last one inf.
    """
    return _Running(flows, capacity, queue, changes).to_the_end()


class _Running:
    """The state between two steps."""

    def __init__(
        self,
        flows: Flows,
        capacity: Floats,
        queue: MoveQueue | None,
        changes: LeaderChanges | None,
    ) -> None:
        count = len(flows.remaining_bytes)
        self._flows, self._left = flows, capacity.copy()
        self._passes, self._after = flows.passes.copy(), flows.after_bytes_per_s.copy()
        self._checks = None if changes is None else _Checks(changes)
        self._groups, self._group = _grouped(flows.passes, len(capacity))
        self._turns = None if queue is None else Turns(queue)
        self._remaining = flows.remaining_bytes.copy()
        self._seconds, self._begins_s = np.full((2, count), np.inf)
        self._rate, self._tight = np.zeros(count), np.full(count, len(capacity) - 1)
        self._active = np.arange(count) if self._turns is None else self._turns.begin()
        self._begins_s[self._active] = 0.0
        self._now_s = 0.0
        self._moments: list[Moment] = []

    def to_the_end(self) -> FluidRun:
        """Until none is left that ever ends."""
        while len(self._active) and self._step():
            pass
        return FluidRun(
            self._seconds, self._begins_s, self._rate, self._tight, tuple(self._moments)
        )

    def _step(self) -> bool:
        """Until the next ones have ended; False where none does."""
        active, flows = self._active, self._flows
        own = self._group[active]
        counts = np.bincount(own, minlength=len(self._groups))
        shares, tight = fair_shares(self._groups, counts, self._left)
        rate, written = shares[own], flows.written_bytes_per_s[active]
        if not self._moments:
            self._rate[active], self._tight[active] = rate, tight[own]
        self._moments.append(Moment(self._now_s, active, tight[own], self._remaining[active]))
        net = rate - written
        need = np.full(len(active), np.inf)
        closing = (net > _EVEN * written) & np.isfinite(net)
        np.divide(self._remaining[active], net, out=need, where=closing)
        need[np.isinf(net)] = 0.0
        check_s = math.inf
        if self._checks is not None:
            check_s = self._checks.until_s(self._now_s, active)
        step_s = min(self._step_s(need), check_s)
        if np.isinf(step_s):
            return False
        ended = need <= step_s
        gone, stay = active[ended], active[~ended]
        self._seconds[gone] = self._now_s + need[ended]
        self._remaining[stay] = np.maximum(self._remaining[stay] - net[~ended] * step_s, 0.0)
        self._now_s += step_s
        unused = np.zeros(len(gone))
        finite = np.isfinite(rate[ended])
        np.multiply(rate[ended], step_s - need[ended], out=unused, where=finite)
        self._active = np.concatenate([stay, self._next(gone)])
        self._give(self._by_resource(gone, unused), np.unique(tight[counts > 0]))
        self._left -= np.bincount(
            self._passes[gone].ravel(), self._after[gone].ravel(), len(self._left)
        )
        if self._checks is not None and step_s == check_s:
            self._change_leaders(self._checks.changes, self._checks.due(stay))
        return True

    def _change_leaders(self, changes: LeaderChanges, some: Ints) -> None:
        """These copies pass what is on the way from their next leaders."""
        goes = changes.in_sync_bytes_per_s[some]
        before, then = self._passes[some, 0], changes.passes[some, 0]
        self._left += np.bincount(before, goes, len(self._left))
        self._left -= np.bincount(then, goes, len(self._left))
        self._passes[some], self._after[some] = (
            changes.passes[some],
            changes.after_bytes_per_s[some],
        )
        self._groups, self._group = _grouped(self._passes, len(self._left))

    def _step_s(self, need: Floats) -> float:
        """Until enough copies have ended to share rates anew; inf where none ends."""
        at_once = len(need) // PART
        if self._turns is not None and self._turns.waiting:
            through = (len(need) + self._turns.waiting) // STEPS
            at_once = max(at_once, min(through, len(need) // 2))
        place = max(at_once, 1) - 1
        step_s = float(np.partition(need, place)[place])
        return float(need.min()) if np.isinf(step_s) else step_s

    def _next(self, gone: Ints) -> Ints:
        """Copies whose turn has come."""
        if self._turns is None:
            return np.empty(0, np.int64)
        fresh = self._turns.ended(gone)
        self._begins_s[fresh] = self._now_s
        # Its leader took more records while it waited.
        self._remaining[fresh] += self._flows.written_bytes_per_s[fresh] * self._now_s
        return fresh

    def _by_resource(self, copies: Ints, values: Floats) -> Floats:
        passes = self._passes[copies]
        spread = np.repeat(values, passes.shape[1])
        return np.bincount(passes.ravel(), spread, len(self._left)).astype(np.float64)

    def _give(self, unused_bytes: Floats, tight: Ints) -> None:
        """What ended copies left unused goes to those that are held up where it was left."""
        active = self._active
        if not len(active) or not unused_bytes.any():
            return
        users = self._by_resource(active, np.ones(len(active)))
        offers = np.full(len(unused_bytes), np.inf)
        offers[tight] = unused_bytes[tight] / np.maximum(users[tight], 1.0)
        offers[-1] = np.inf
        given = offers[self._passes[active]].min(axis=1)
        given[~np.isfinite(given)] = 0.0
        self._remaining[active] = np.maximum(self._remaining[active] - given, 0.0)


class _Checks:
    """When leaders change, and which copies still wait for that."""

    def __init__(self, changes: LeaderChanges) -> None:
        self.changes = changes
        self._waits = changes.which.copy()
        self._next_s, self._exact = changes.first_s, CHECKS

    def until_s(self, now_s: float, active: Ints) -> float:
        """Until a copy of these gets its next leader; inf: none waits for it."""
        if not self._waits[active].any():
            return math.inf
        if not self._exact:
            return 0.0
        if self._next_s < now_s:
            every_s = self.changes.every_s
            self._next_s += math.ceil((now_s - self._next_s) / every_s) * every_s
        return max(self._next_s - now_s, 0.0)

    def due(self, active: Ints) -> Ints:
        """The copies of these that get their next leaders now."""
        found: Ints = active[self._waits[active]]
        self._waits[found] = False
        self._exact = max(self._exact - 1, 0)
        self._next_s += self.changes.every_s
        return found


def _grouped(passes: Ints, resources: int) -> tuple[Ints, Ints]:
    """Different ways through the resources, and which of them each copy goes."""
    keys = np.zeros(len(passes), np.int64)
    for column in passes.T:
        keys = keys * resources + column
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return passes[first], group.reshape(-1)
