"""Which waiting moves begin as others end, under the caps of their operations.

The order is that of the backend's scheduler (`move_passes`): the operations one after the other,
each with its waiting moves in the order that it has for them. Moves of nobody's, and of other
operations, hold places as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Ints, Mask
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.move_passes import in_passes

AT_ONCE: Final = 64
"""When places become free, this many of the moves that fit are looked at together."""


@dataclass(frozen=True, eq=False)
class WaitingMoves:
    """Moves of one operation that wait, in its order."""

    moves: Ints
    """By number."""
    caps: MoveCaps


@dataclass(frozen=True, eq=False)
class MoveQueue:
    """Who is in flight, and who waits."""

    move: Ints
    """The move that each copy is of, from 0 on. Shape (copies,)."""
    lost: Ints
    """Copies of each move that are not among these, and keep it from ever ending."""
    brokers: Sequence[frozenset[int]]
    """Of each move those that it makes copy: its leader's, and those of its new replicas."""
    waiting: tuple[WaitingMoves, ...]
    """By operation, in the order in which they are looked after."""

    @property
    def waits(self) -> Mask:
        """Which moves wait. Shape (moves,)."""
        found: Mask = np.zeros(len(self.brokers), np.bool_)
        for one in self.waiting:
            found[one.moves] = True
        return found

    def of(self, copies: Ints) -> MoveQueue:
        """Of these copies alone: the others never arrive, and their moves hold their places."""
        left = np.ones(len(self.move), np.bool_)
        left[copies] = False
        lost = self.lost + np.bincount(self.move[left], minlength=len(self.brokers))
        # What would never end does not begin either.
        waiting = tuple(replace(one, moves=one.moves[lost[one.moves] == 0]) for one in self.waiting)
        return MoveQueue(self.move[copies], lost, self.brokers, waiting)


class Turns:
    """The places, as moves end and begin."""

    def __init__(self, queue: MoveQueue) -> None:
        self._queue = queue
        count = len(queue.brokers)
        self._unfinished = queue.lost + np.bincount(queue.move, minlength=count)
        self._waits = queue.waits
        self._places = _Places(queue.brokers)
        for move in np.flatnonzero(~self._waits & (self._unfinished > 0)).tolist():
            self._places.take(queue.brokers[move])
        self._copies = np.argsort(queue.move, kind="stable")
        self._first = np.searchsorted(queue.move[self._copies], np.arange(count + 1))
        self.waiting = int(self._waits[queue.move].sum())
        """Copies whose turn has not come."""

    def begin(self) -> Ints:
        """The copies that are under way from the start."""
        under_way = np.flatnonzero(~self._waits[self._queue.move])
        return np.concatenate([under_way, self._started(len(self._waits))])

    def ended(self, copies: Ints) -> Ints:
        """These have ended; the copies that begin for it."""
        moves = self._queue.move[copies]
        np.subtract.at(self._unfinished, moves, 1)
        over = np.unique(moves[self._unfinished[moves] == 0])
        for move in over.tolist():
            self._places.leave(self._queue.brokers[move])
        return self._started(AT_ONCE) if len(over) and self.waiting else np.empty(0, np.int64)

    def _started(self, at_once: int) -> Ints:
        """The copies that begin; one step looks at `at_once` of the moves that fit."""
        found = [np.empty(0, np.int64)]
        for one in self._queue.waiting:
            self._places.caps = one.caps
            more = True
            while more:
                moves, more = self._begun(one.moves[self._waits[one.moves]], at_once)
                self._waits[moves] = False
                found += [self._copies[self._first[n] : self._first[n + 1]] for n in moves]
        fresh = np.concatenate(found)
        self.waiting -= len(fresh)
        return fresh

    def _begun(self, waiting: Ints, at_once: int) -> tuple[list[int], bool]:
        """Those that begin; True: more than `at_once` fit, and some began."""
        fits = waiting[self._places.fit(waiting)]
        queue = [(move, self._queue.brokers[move]) for move in fits[:at_once].tolist()]
        moves = [move for move, begins in in_passes(queue, self._places) if begins]
        return moves, len(fits) > at_once and bool(moves)


class _Places:
    """What moves in flight take of each broker, and of the cluster."""

    def __init__(self, brokers: Sequence[frozenset[int]]) -> None:
        self.caps = MoveCaps(0, 0)
        """Of the operation whose moves are looked at."""
        ids = sorted(frozenset().union(*brokers))
        self._place_of = {broker: place for place, broker in enumerate(ids)}
        self._taken = np.zeros(len(ids) + 1, np.int64)
        self._moves_of: dict[int, int] = dict.fromkeys(ids, 0)
        """By broker the same as in `_taken`: one by one, a dictionary is faster."""
        self._in_cluster = 0
        wide = max(map(len, brokers), default=0)
        self._table = np.full((len(brokers), wide), len(ids))
        """The places of each move's brokers; the last one is nobody's, and fills rows."""
        for move, some in enumerate(brokers):
            self._table[move, : len(some)] = [self._place_of[broker] for broker in some]

    def fit(self, moves: Ints) -> Mask:
        """Which of some moves find all of their brokers with room, each by itself."""
        if self._in_cluster >= self.caps.in_cluster:
            return np.zeros(len(moves), np.bool_)
        found: Mask = (self._taken[self._table[moves]] < self.caps.per_broker).all(axis=1)
        return found

    def room(self, brokers: frozenset[int]) -> bool:
        """Whether one more finds a place."""
        if self._in_cluster >= self.caps.in_cluster:
            return False
        most, moves_of = self.caps.per_broker, self._moves_of
        for broker in brokers:  # noqa: SIM110 - a generator takes three times as long
            if moves_of[broker] >= most:
                return False
        return True

    def take(self, brokers: frozenset[int]) -> None:
        """One has begun."""
        self._count(brokers, 1)

    def leave(self, brokers: frozenset[int]) -> None:
        """One has ended."""
        self._count(brokers, -1)

    def _count(self, brokers: frozenset[int], more: int) -> None:
        for broker in brokers:
            self._taken[self._place_of[broker]] += more
            self._moves_of[broker] += more
        self._in_cluster += more if brokers else 0
