"""What brokers are balanced by: bytes, replicas or traffic; and the choices that change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.planning.goals import Weighing
from kshunt.backend.domain.planning.proposal import PlanNote
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.placement.plans.draft import PlanDraft
from kshunt.backend.placement.plans.exhaustive_search import (
    Choices,
    Floats,
    best_of_all,
    few_enough,
)
from kshunt.backend.placement.plans.leveller import Band, Items
from kshunt.backend.placement.plans.situation import Situation

MEMBERS_MAX = 2_000
"""Sets of brokers of one partition beyond which the exact search is not tried."""


class Loads:
    """The load of each broker of a draft by one weighing, and what each replica adds to it."""

    def __init__(self, draft: PlanDraft, weighing: Weighing) -> None:
        self.draft = draft
        self.weighing = weighing
        self.follower, self.extra, self.known = _weights(draft, weighing)
        """What a follower adds, what leading adds to that, and whether it is known. Shape (P,)."""
        led = np.bincount(draft.table[:, 0], self.extra, minlength=len(draft.ids))
        self.by_broker: Floats = draft.sum_by_broker(self.follower) + led
        self.counted = draft.usable.copy()
        """Brokers that are balanced; what lies on the others is not looked at. Shape (brokers,)."""

    @property
    def movable(self) -> NDArray[np.bool_]:
        """Partitions that may change and whose weight is known. Shape (P,)."""
        return self.draft.movable & self.known

    def mean(self) -> float:
        """Of the brokers that are balanced."""
        return float(self.by_broker[self.counted].mean()) if self.counted.any() else 0.0

    def band(self, tolerance: float) -> Band:
        """Within this fraction of the mean; for counts, at least the whole numbers around it."""
        mean = self.mean()
        low, high = mean * (1 - tolerance), mean * (1 + tolerance)
        if self.weighing is Weighing.REPLICAS:
            low, high = np.ceil(min(low, np.floor(mean))), np.floor(max(high, np.ceil(mean)))
        return Band(
            low=np.where(self.counted, low, -np.inf),
            goal=np.where(self.counted, mean, 0.0),
            high=np.where(self.counted, high, np.inf),
        )

    def items(self) -> tuple[Items, list[int]]:
        """Every replica that may move as an item, and the row of each.

        They come in an order drawn by the seed. Of equally good ones, none is preferred for its
        place in the list, so that preferred leaders move as often as followers.
        """
        draft = self.draft
        table = draft.table.copy()
        for row in draft.changed_rows():
            table[row, : len(draft.replicas[row])] = draft.replicas[row]
        there = (table != NO_BROKER) & self.movable[:, None]
        rows, places = np.nonzero(there)
        source = table[rows, places]
        weight = self.follower[rows] + np.where(places == 0, self.extra[rows], 0.0)
        chosen = np.flatnonzero((weight > 0) & self.counted[source])
        chosen = np.random.default_rng(abs(draft.scope.seed)).permutation(chosen)
        cost = draft.sizes[rows].astype(np.float64)
        items = Items(source[chosen], weight[chosen], cost[chosen])
        return items, rows[chosen].tolist()

    def unknown_note(self) -> Iterator[PlanNote]:
        """What is left out because nobody knows what it weighs."""
        if self.weighing is Weighing.LOAD and not reads_known(self.draft.situation):
            yield PlanNote("The consumers' reads are unknown; only the written bytes count.", "")
        unknown = int((self.draft.movable & ~self.known).sum())
        if unknown:
            what = "size" if self.weighing is Weighing.BYTES else "traffic"
            yield PlanNote(
                f"{many(unknown, 'partition')} of unknown {what} stay where they are and count as "
                "zero.",
                "Plan again when every broker has reported it.",
            )


class ReplicaBins:
    """The items of `Loads.items` on their brokers (`leveller.Bins`)."""

    def __init__(self, draft: PlanDraft, items: Items, rows: Sequence[int]) -> None:
        self._draft = draft
        self._source = items.source.tolist()
        self._at: list[int] = items.source.tolist()
        self._rows = rows

    def may_take(self, item: int) -> NDArray[np.bool_]:
        """Brokers that may take it. Shape (brokers,)."""
        return self._draft.destinations(self._rows[item], self._at[item])

    def may_return(self, item: int) -> bool:
        """Whether it may stay where it is after all."""
        return self._draft.may_return(self._rows[item], self._at[item], self._source[item])

    def move(self, item: int, target: int) -> None:
        """Put it there, in the place that it has in the list."""
        self._draft.replace(self._rows[item], self._at[item], target)
        self._at[item] = target


@dataclass(frozen=True, eq=False)
class SearchLimits:
    """What the exact search has to keep in addition to what every draft does."""

    budget_bytes: float
    """What may be copied."""
    floor: Floats
    """No broker's load comes below it, nor sinks where it is below. Shape (brokers,)."""
    ceiling: Floats
    """No broker's load comes above it, nor grows where it is above. Shape (brokers,)."""
    reorder: bool
    """Whether another replica of a list may be made its first."""


def solve_exactly(loads: Loads, band: Band, limits: SearchLimits) -> bool:
    """Take the best of all choices, if they are few; say whether that was done.

    `loads` are those from before anything was changed, and are kept right.
    """
    draft = loads.draft
    rows = np.flatnonzero(loads.movable).tolist()
    if len(rows) > 32 or not few_enough([_count(draft, row) for row in rows], len(draft.ids)):
        return False
    options = [_options(loads, row, limits.reorder) for row in rows]
    if not few_enough([len(lists) for lists in options], len(draft.ids)):
        return False
    choices = [_choices(loads, row, lists) for row, lists in zip(rows, options, strict=True)]
    rest = loads.by_broker - sum((each.loads[0] for each in choices), np.zeros(len(draft.ids)))
    least = np.minimum(limits.floor, loads.by_broker) - 1e-6
    most = np.maximum(limits.ceiling, loads.by_broker) + 1e-6

    def outside(states: Floats) -> Floats:
        far: Floats = band.outside(states).sum(axis=1)
        within = ((states >= least) & (states <= most)).all(axis=1)
        return np.where(within, far, np.inf)

    best = best_of_all(choices, rest, draft.room, outside, limits.budget_bytes)
    for row, lists, place in zip(rows, options, best, strict=True):
        if place:
            draft.set_list(row, lists[place])
    loads.by_broker[:] = rest + sum(
        (each.loads[place] for each, place in zip(choices, best, strict=True)),
        np.zeros(len(draft.ids)),
    )
    return True


def _count(draft: PlanDraft, row: int) -> int:
    """How many sets of brokers the partition could be on, racks and disks left aside."""
    brokers = set(np.flatnonzero(draft.usable).tolist()) | set(draft.replicas[row])
    sets = comb(len(brokers), len(draft.replicas[row]))
    return sets if sets <= MEMBERS_MAX else 10**9


def _options(loads: Loads, row: int, reorder: bool) -> list[list[int]]:
    """Lists that the partition may have, the present one first."""
    draft = loads.draft
    present = draft.replicas[row]
    fresh = np.flatnonzero(draft.candidates(row)).tolist()
    stuck = {broker for broker in present if not loads.counted[broker]}
    found = [list(present)]
    for members in combinations([*present, *fresh], len(present)):
        if stuck <= set(members) and len(draft.racks_of(members)) >= draft.need(row):
            arranged = _arranged(present, members)
            found.extend(_led(loads, row, arranged) if reorder else [arranged])
    return [each for place, each in enumerate(found) if each not in found[:place]]


def _arranged(present: Sequence[int], members: Sequence[int]) -> list[int]:
    """The members, those that stay in their places and the new ones in the places of others."""
    new = iter([broker for broker in members if broker not in present])
    return [broker if broker in members else next(new) for broker in present]


def _led(loads: Loads, row: int, arranged: list[int]) -> Iterator[list[int]]:
    """The list as it is, and with each replica first that may lead."""
    yield arranged
    for place in range(1, len(arranged)):
        broker = arranged[place]
        if broker not in loads.draft.replicas[row] or loads.draft.may_lead(row, broker):
            first = list(arranged)
            first[0], first[place] = broker, arranged[0]
            yield first


def _choices(loads: Loads, row: int, lists: Sequence[list[int]]) -> Choices:
    draft = loads.draft
    shape = (len(lists), len(draft.ids))
    sums, added = np.zeros(shape), np.zeros(shape)
    present = set(draft.replicas[row])
    for place, brokers in enumerate(lists):
        sums[place, brokers] = loads.follower[row]
        sums[place, brokers[0]] += loads.extra[row]
        added[place, [broker for broker in brokers if broker not in present]] = draft.size(row)
    return Choices(sums, added.sum(axis=1), added)


def _weights(draft: PlanDraft, weighing: Weighing) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    situation = draft.situation
    nothing = np.zeros(len(situation))
    if weighing is Weighing.REPLICAS:
        return np.ones(len(situation)), nothing, np.ones(len(situation), np.bool_)
    if weighing is Weighing.BYTES:
        known = situation.size_bytes >= 0
        return np.where(known, situation.size_bytes, 0).astype(np.float64), nothing, known
    into, out = situation.in_bytes_per_s, situation.out_bytes_per_s
    if not reads_known(situation):
        known = ~np.isnan(into)
        return np.where(known, into, 0.0), nothing, known
    known = ~(np.isnan(into) | np.isnan(out))
    return np.where(known, into, 0.0), np.where(known, out, 0.0), known


def reads_known(situation: Situation) -> bool:
    """Whether anybody has told what consumers read of any partition; brokers tell it nobody but
    JMX."""
    return bool((~np.isnan(situation.out_bytes_per_s)).any())
