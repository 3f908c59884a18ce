"""Even out how many partitions each broker is preferred to lead, without copying anything.

Goals
    1. Each broker that is up is first in the lists of between `1 - tolerance` and `1 + tolerance`
       times the mean of partitions; the whole numbers around the mean always count as even.
       Measured as the sum of what brokers lead too many and too few.
    2. Few lists are reordered: a path through other brokers is taken only where no shorter one is
       left.
Constraints
    No list gains or loses a broker. Only a replica that is in sync and up is made the first. Topics
    outside the scope and partitions that are being reassigned stay as they are, and count.
Algorithm
    A partition led by u with a follower on v that could lead is an edge from u to v: reordering it
    gives one from u to v. While a broker leads too many, find the shortest path of edges from it to
    one that leads fewer than the mean, and reorder a partition on each edge. Do likewise,
    backwards, for one that leads too few. If there is no path, no reordering helps: this is a
    maximum flow by shortest augmenting paths (Edmonds and Karp 1972), so what remains cannot be had
    without moving replicas.
The brokers lead so after the next preferred leader election.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator
from itertools import pairwise
from math import ceil, floor

import numpy as np

from kshunt.backend.domain.planning.proposal import Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.draft import PlanDraft
from kshunt.backend.placement.plans.rebalance import check_tolerance
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation


def balance_leaders(
    situation: Situation, *, tolerance: float = 0.1, scope: Scope | None = None
) -> Proposal:
    """Reorder lists until every broker leads its share.

    Raises:
        BadInput: the tolerance is below 0, no broker is up, or no topic is in scope.
    """
    check_tolerance(tolerance)
    draft = PlanDraft(situation, scope or Scope())
    if not draft.up.any():
        raise BadInput("No broker is up; nothing was planned.")
    flow = _LeaderFlow(draft)
    mean = sum(flow.led[broker] for broker in flow.counted) / len(flow.counted)
    low = ceil(min(mean * (1 - tolerance), floor(mean)))
    high = floor(max(mean * (1 + tolerance), ceil(mean)))
    before = flow.outside(low, high)
    for broker in sorted(flow.counted, key=lambda each: -flow.led[each]):
        while flow.led[broker] > high and flow.give(broker, floor(mean), high):
            pass
    for broker in sorted(flow.counted, key=lambda each: flow.led[each]):
        while flow.led[broker] < low and flow.take(broker, ceil(mean), low):
            pass
    measure = Measure("leaders outside the band", before, flow.outside(low, high))
    return draft.proposal("balance leaders", measure, _uneven(flow, low, high))


class _LeaderFlow:
    """Who leads how many, and which partitions could pass from one broker to another."""

    def __init__(self, draft: PlanDraft) -> None:
        self.draft = draft
        self.counted = np.flatnonzero(draft.up).tolist()
        self.led: list[int] = np.bincount(draft.table[:, 0], minlength=len(draft.ids)).tolist()
        self._may = _may_lead(draft)
        self._edges: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._backward: dict[int, set[int]] = defaultdict(set)
        for row in np.flatnonzero(draft.movable).tolist():
            self._link(row)

    def outside(self, low: int, high: int) -> int:
        """What brokers lead too many and too few."""
        led = [self.led[broker] for broker in self.counted]
        return sum(max(count - high, low - count, 0) for count in led)

    def give(self, broker: int, wanted: int, most: int) -> bool:
        """Pass one from the broker to one that leads fewer than `wanted`, else than `most`."""
        for limit in (wanted, most):
            ends = {other for other in self.counted if self.led[other] < limit}
            if self._along(_path(broker, self._followers, ends)):
                return True
        return False

    def take(self, broker: int, wanted: int, least: int) -> bool:
        """Pass one to the broker from one that leads more than `wanted`, else than `least`."""
        for limit in (wanted, least):
            ends = {other for other in self.counted if self.led[other] > limit}
            if self._along(_path(broker, self._leaders, ends)[::-1]):
                return True
        return False

    def _along(self, path: list[int]) -> bool:
        for giver, taker in pairwise(path):
            row = self._edges[giver][taker].pop()
            self.draft.prefer(row, taker)
            self.led[giver] -= 1
            self.led[taker] += 1
            self._link(row)
        return bool(path)

    def _followers(self, broker: int) -> Iterator[int]:
        """Brokers that the broker could pass a partition to."""
        for other in self._edges[broker]:
            if self._live(broker, other):
                yield other

    def _leaders(self, broker: int) -> Iterator[int]:
        """Brokers that could pass it one."""
        for other in sorted(self._backward[broker]):
            if self._live(other, broker):
                yield other

    def _live(self, giver: int, taker: int) -> bool:
        """Whether a partition of that edge is left; forgets those that another leads by now."""
        rows = self._edges[giver][taker]
        while rows and self.draft.replicas[rows[-1]][0] != giver:
            rows.pop()
        return bool(rows)

    def _link(self, row: int) -> None:
        first, *others = self.draft.replicas[row]
        for other in others:
            if (row, other) in self._may:
                self._edges[first][other].append(row)
                self._backward[other].add(first)


def _may_lead(draft: PlanDraft) -> set[tuple[int, int]]:
    """(row, broker) of every replica that is in sync and up, or is the first of its list anyway."""
    may = draft.situation.in_sync & draft.up[draft.table]
    may[:, 0] = True
    rows, places = np.nonzero(may)
    return set(zip(rows.tolist(), draft.table[rows, places].tolist(), strict=True))


def _path(
    start: int, neighbours: Callable[[int], Iterator[int]], ends: Container[int]
) -> list[int]:
    """The fewest brokers from `start` to one of the ends; empty if none can be reached."""
    came: dict[int, int] = {start: start}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for following in neighbours(at):
            if following in came:
                continue
            came[following] = at
            if following in ends:
                return _walk(came, start, following)
            queue.append(following)
    return []


def _walk(came: dict[int, int], start: int, end: int) -> list[int]:
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _uneven(flow: _LeaderFlow, low: int, high: int) -> Iterator[PlanNote]:
    for broker in flow.counted:
        count = flow.led[broker]
        if not low <= count <= high:
            wanted = f"at most {high}" if count > high else f"at least {low}"
            yield PlanNote(
                f"It will lead {many(count, 'partition')} instead of {wanted}; no other order of "
                "the lists helps.",
                "Rebalance by replicas or traffic, or wait until more replicas are in sync.",
                broker=flow.draft.ids[broker],
            )
