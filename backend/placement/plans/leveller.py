"""Bring bins to between two marks by moving items, at the least cost: the core of every balance.

Goals
    1. Every bin's load is at least its `low` and at most its `high`.
    2. The items that move cost as little as possible (bytes).
Constraints
    - An item moves once, and only to a bin that may take it (`Bins.may_take`).
    - No move brings a bin over its `high`, or a giver under its floor; of a swap, the two bins
      together come nearer to the band.
    - The moves together cost at most the budget.
Algorithm
    Whatever is done, a bin above its high mark has to lose the difference, and one below its low
    mark has to gain it. So the cost is near the least if no more than that moves, by items that are
    cheap for their weight:
    1. Shed: items in order of cost for weight, the heavier first among equals. One that is no
       heavier than what its bin has too much goes to the bin that is furthest under its goal.
    2. What is still too much in a bin is lighter than any item of it that fits: its cheapest item
       that is enough goes.
    3. Pull: likewise for the bins that have too little, from those above their goal, and then from
       those above their low mark.
    Each step goes once through the sorted items: what a bin has too much only shrinks, so an item
    that was too heavy stays so. Where items are few they are heavy for their bins, and a pass does
    more than it must or stops short. There, look again:
    4. Exchange: while a bin is outside, swap one of its items for one of another bin. Take the
       pair that brings the two nearest to the band, of several the cheapest.
    5. Give back: an item whose move is not needed any more returns; in place of one that moved, the
       cheapest of its bin goes that is still enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOOKS_MAX = 2_000_000
"""Items that may be looked at again to spare some; beyond, a single one matters little."""
PAIRS_MAX = 50
"""Pairs that are tried for a swap, or in place of one item, the best first."""
SWAPS_MAX = 200
"""Swaps of one balance."""


class Bins(Protocol):
    """Where items lie; brokers, or the directories of one."""

    def may_take(self, item: int) -> NDArray[np.bool_]:
        """Bins that may take an item from where it is. Shape (bins,)."""
        ...

    def may_return(self, item: int) -> bool:
        """Whether an item that moved may go back to where it was."""
        ...

    def move(self, item: int, target: int) -> None:
        """Move it there; to where it was before, to undo its move."""
        ...


@dataclass(frozen=True, eq=False)
class Items:
    """What may move. Every array has shape (items,)."""

    source: NDArray[np.int64]
    """The bin that it is in."""
    weight: Floats
    """What it adds to a bin's load; above 0."""
    cost: Floats
    """What moving it takes, in bytes."""

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Band:
    """Where loads are to be. Every array has shape (bins,)."""

    low: Floats
    goal: Floats
    """Between the two: bins are filled, and emptied, in order of their distance from it."""
    high: Floats

    def outside(self, loads: Floats) -> Floats:
        """How much each load is above or below the band. Any shape whose last axis is bins."""
        return np.maximum(np.maximum(loads - self.high, self.low - loads), 0.0)


class Leveller:
    """One balance. Shares `loads` with its maker, and keeps it right."""

    def __init__(
        self, items: Items, loads: Floats, band: Band, bins: Bins, budget: float = float("inf")
    ) -> None:
        self._source = items.source.tolist()
        self._weight = items.weight.tolist()
        self._cost = items.cost.tolist()
        self._cheap = _by_ratio(items)
        self._light = np.lexsort((items.weight, items.cost)).tolist()
        self._at: list[int] = items.source.tolist()
        self._loads = loads
        self._band = band
        self._bins = bins
        self._slack = 1e-9 * max(float(np.abs(loads).max(initial=0.0)), 1.0)
        self.left = budget
        """What may still be spent."""

    def level(self) -> None:
        """Do all the steps."""
        band = self._band
        if len(self._loads) == 0:
            return
        self._shed(self._cheap, enough=False)
        self._shed(self._light, enough=True)
        for floor in (band.goal, band.low):
            self.pull(band.low, floor)
            self._top_up(floor)
        self._exchange()
        self._give_back()

    def pull(self, wanted: Floats, floor: Floats) -> None:
        """Bring bins up to `wanted` and not above, from bins that stay at their `floor` or above.

        Both have shape (bins,); the order is that of cost for weight.
        """
        gaps = wanted - self._loads
        widest = float(gaps.max())
        for item in self._affordable(self._cheap):
            weight, source = self._weight[item], self._source[item]
            if weight > widest + self._slack or gaps[source] > self._slack:
                continue
            if self._loads[source] - weight < floor[source] - self._slack:
                continue
            fits = self._bins.may_take(item) & (gaps >= weight - self._slack)
            if fits.any():
                self._move(item, int(np.where(fits, gaps, -np.inf).argmax()))
                gaps = wanted - self._loads
                widest = float(gaps.max())

    def _shed(self, order: list[int], *, enough: bool) -> None:
        band = self._band
        excess = self._loads - band.high
        if float(excess.max()) <= self._slack:
            return
        for item in self._affordable(order):
            weight, source = self._weight[item], self._source[item]
            much = excess[source]
            if much <= self._slack or (weight < much if enough else weight > much + self._slack):
                continue
            if self._loads[source] - weight < band.low[source] - self._slack:
                continue
            fits = self._bins.may_take(item) & (self._loads + weight <= band.high + self._slack)
            if fits.any():
                self._move(item, int(np.where(fits, self._loads - band.goal, np.inf).argmin()))
                excess = self._loads - band.high

    def _top_up(self, floor: Floats) -> None:
        """Give each bin that still lacks something one item that is enough, the cheapest."""
        band = self._band
        gaps = band.low - self._loads
        if float(gaps.max()) <= self._slack:
            return
        for item in self._affordable(self._light):
            weight, source = self._weight[item], self._source[item]
            if self._loads[source] - weight < floor[source] - self._slack:
                continue
            short = (gaps > self._slack) & (gaps <= weight + self._slack)
            short &= self._loads + weight <= band.high + self._slack
            if not short.any():
                continue
            fits = short & self._bins.may_take(item)
            if fits.any():
                self._move(item, int(np.where(fits, gaps, -np.inf).argmax()))
                gaps = band.low - self._loads
                if float(gaps.max()) <= self._slack:
                    return

    def _affordable(self, order: list[int]) -> Iterator[int]:
        for item in order:
            if self._at[item] == self._source[item] and self._cost[item] <= self.left:
                yield item

    def _move(self, item: int, target: int) -> None:
        self._bins.move(item, target)
        self._loads[self._at[item]] -= self._weight[item]
        self._loads[target] += self._weight[item]
        self._at[item] = target
        home = target == self._source[item]
        self.left += self._cost[item] if home else -self._cost[item]

    def _unmoved(self) -> list[list[int]]:
        """The items of each bin that have not moved, the cheapest first."""
        found: list[list[int]] = [[] for _ in self._loads]
        for item in self._light:
            if self._at[item] == self._source[item]:
                found[self._source[item]].append(item)
        return found

    def _exchange(self) -> None:
        if len(self._source) * len(self._loads) > LOOKS_MAX:
            return
        stuck = np.zeros(len(self._loads), np.bool_)
        for _ in range(SWAPS_MAX):
            far = np.where(stuck, 0.0, self._band.outside(self._loads))
            worst = int(far.argmax())
            if far[worst] <= self._slack:
                return
            stuck[worst] = not self._swap(worst)

    def _swap(self, worst: int) -> bool:
        """Swap one item of the bin for another bin's, if that brings both nearer to the band."""
        unmoved = self._unmoved()
        mine = np.array(unmoved[worst], np.int64)
        pairs: list[tuple[float, float, int, int]] = []
        for other, theirs in enumerate(unmoved):
            if other != worst and 0 < len(mine) * len(theirs) <= LOOKS_MAX:
                pairs += self._pairs(worst, mine, other, np.array(theirs, np.int64))
        for _, _, one, two in sorted(pairs)[:PAIRS_MAX]:
            there, here = self._source[two], self._source[one]
            if self._bins.may_take(one)[there] and self._bins.may_take(two)[here]:
                self._move(one, there)
                if self._bins.may_take(two)[here]:
                    self._move(two, here)
                    return True
                self._move(one, here)
        return False

    def _pairs(
        self, worst: int, mine: NDArray[np.int64], other: int, theirs: NDArray[np.int64]
    ) -> list[tuple[float, float, int, int]]:
        """The best pairs to swap: (outside after it less before, cost, one item, the other)."""
        weight, cost = np.array(self._weight), np.array(self._cost)
        band, both = self._band, [worst, other]
        shift = weight[mine][:, None] - weight[theirs][None, :]
        after = np.stack([self._loads[worst] - shift, self._loads[other] + shift], axis=-1)
        low, high = band.low[both], band.high[both]
        far = np.maximum(np.maximum(after - high, low - after), 0.0).sum(axis=-1)
        gain = far - float(band.outside(self._loads)[both].sum())
        price = cost[mine][:, None] + cost[theirs][None, :]
        good = np.flatnonzero((gain < -self._slack) & (price <= self.left))
        order = np.lexsort((price.ravel()[good], gain.ravel()[good]))[:PAIRS_MAX]
        return [
            (
                float(gain.ravel()[at]),
                float(price.ravel()[at]),
                int(mine[at // len(theirs)]),
                int(theirs[at % len(theirs)]),
            )
            for at in good[order].tolist()
        ]

    def _give_back(self) -> None:
        moved = [item for item, at in enumerate(self._at) if at != self._source[item]]
        if len(moved) * len(self._at) > LOOKS_MAX * len(self._loads):
            return
        unmoved = self._unmoved()
        band = self._band
        for item in sorted(moved, key=lambda each: (-self._cost[each], each)):
            here, there = self._source[item], self._at[item]
            spare = min(band.high[here] - self._loads[here], self._loads[there] - band.low[there])
            least = self._weight[item] - max(float(spare), 0.0)
            if not self._bins.may_return(item):
                continue
            if least <= self._slack:
                self._move(item, here)
                continue
            self._spare(item, least, unmoved[here])

    def _spare(self, item: int, least: float, others: list[int]) -> None:
        """Let a cheaper item of its bin go in place of one that moved, if one is enough."""
        here, there = self._source[item], self._at[item]
        tries = 0
        for other in others:
            if self._cost[other] >= self._cost[item] or tries == PAIRS_MAX:
                return
            if self._at[other] == here and least <= self._weight[other] <= self._weight[item]:
                self._move(item, here)
                if self._bins.may_take(other)[there]:
                    self._move(other, there)
                    return
                self._move(item, there)
                tries += 1


def _by_ratio(items: Items) -> list[int]:
    """Cheapest for their weight first, and the heavier of those that are equal."""
    order = np.lexsort((-items.weight, items.cost / items.weight))
    ordered: list[int] = order.tolist()
    return ordered
