"""What the goal-driven placers share: choose the brokers that should get a replica first.

Goals
    1. Spread each partition's replicas over all racks, as far as there are replicas.
    2. Give replicas first to the brokers that a placer prefers, until each has its fill.
    3. Otherwise let every broker hold the same number of replicas as any other, counting those
       that it is said to hold already. Let every broker also lead the same number of partitions.

Constraints
    - No broker holds two replicas of a partition.
    - A fenced broker is used only if there are fewer others than replicas, and never leads.
    - Either every broker has a rack or none has.

Algorithm (greedy, one partition after the other)
    1. Each replica goes to one of the racks where the partition has fewest. Of their brokers, it
       goes to a preferred one that has not its fill, then to one that holds least. Between equals
       it goes to one of the rack that holds least a broker, then to the cheapest, and then to any
       by lot.
    2. The leader is the chosen broker that leads least. In the end leaders are changed within their
       partitions while that makes their numbers more even.
    With racks of one size, no preferences and nothing held before, brokers differ by one replica
    at most. Each rack keeps its brokers in a heap, so that a replica costs racks + log(brokers).
    10,000 partitions of three replicas on 100 brokers take about half a second in ten racks. They
    take two seconds where each broker is a rack of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random
from typing import Final

from kshunt.backend.placement.placer import ReplicaPlacementFailed, UsableBroker
from kshunt.backend.placement.requirements import check_demand

ALWAYS: Final = math.inf
"""The fill of a broker that is preferred however much it holds."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker, and what speaks for it."""

    broker: UsableBroker
    held: int = 0
    """Replicas that it holds already."""
    leads: int = 0
    """Partitions that it leads already."""
    fill: float = 0.0
    """It is preferred while it holds fewer replicas than this."""
    cost: float = 0.0
    """Decides between equals: the less, the sooner."""


class GoalPlacer(ABC):
    """A placer that weighs brokers; what it weighs is its own."""

    def __init__(self, random: Random | None = None) -> None:
        """A source of one's own makes the placement repeatable."""
        self._random = random or Random()

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """See `ReplicaPlacer.configure`."""

    def close(self) -> None:  # noqa: B027
        """It holds nothing."""

    def candidates(
        self, num_replicas: int, brokers: Sequence[UsableBroker]
    ) -> Sequence[UsableBroker]:
        """The brokers to choose from (`BrokerSelecting`): every one."""
        return brokers

    @abstractmethod
    def weigh(self, brokers: Sequence[UsableBroker], new_replicas: int) -> Sequence[Candidate]:
        """The brokers to choose from, weighed for a request of `new_replicas` replicas in all."""

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> list[list[int]]:
        """See `ReplicaPlacer.place`.

        Raises:
            InvalidReplicationFactor: with Kafka's words.
            ReplicaPlacementFailed: the goal leaves too few brokers, or only some have a rack.
        """
        given = list(brokers)
        check_demand(num_replicas, given)
        chosen = self.candidates(num_replicas, given)
        weighed = self.weigh(chosen, num_partitions * num_replicas)
        return spread(num_partitions, num_replicas, weighed, self._random)


class AvoidingPlacer(GoalPlacer):
    """A placer that keeps off some brokers while the others are enough."""

    strict = True
    """With False, where the others are too few all are used, each avoided one after the others of
    its rack."""

    @abstractmethod
    def avoided(self, brokers: Sequence[UsableBroker]) -> Mapping[int, str]:
        """The brokers to keep off, each with why: "is being removed"."""

    def candidates(
        self, num_replicas: int, brokers: Sequence[UsableBroker]
    ) -> Sequence[UsableBroker]:
        """Those that need not be avoided; with too few of them every one, unless it is strict.

        Raises:
            InvalidReplicationFactor: even with every one they would be too few.
            ReplicaPlacementFailed: it is strict, and they are too few or all fenced; or only some
                brokers have a rack.
        """
        check_demand(num_replicas, brokers)
        reasons = self.avoided(brokers)
        usable = [broker for broker in brokers if broker.id not in reasons]
        if len(usable) >= num_replicas and not all(broker.fenced for broker in usable):
            return usable
        if not self.strict:
            return brokers
        up = sum(not broker.fenced for broker in usable)
        why = "; ".join(f"broker {broker} {reason}" for broker, reason in sorted(reasons.items()))
        raise ReplicaPlacementFailed(
            f"{num_replicas} replica(s) need {num_replicas} brokers, but only {len(usable)} of "
            f"{len(brokers)} may be used ({up} not fenced): {why}.",
            advice="Nothing was placed.",
        )

    def weigh(self, brokers: Sequence[UsableBroker], new_replicas: int) -> Sequence[Candidate]:
        """See `GoalPlacer.weigh`."""
        reasons = self.avoided(brokers)
        return [
            Candidate(broker, fill=0 if broker.id in reasons else ALWAYS, cost=self.cost(broker.id))
            for broker in brokers
        ]

    def cost(self, broker: int) -> float:
        """Decides between equals; here nothing does."""
        return 0.0


def spread(
    num_partitions: int, num_replicas: int, candidates: Sequence[Candidate], random: Random
) -> list[list[int]]:
    """The replica lists, each leader first; there have to be brokers enough, one not fenced."""
    unfenced = [one for one in candidates if not one.broker.fenced]
    racks = _racks(unfenced if len(unfenced) >= num_replicas else candidates, random)
    placed = []
    for _ in range(num_partitions):
        loads = _loads(racks, num_replicas)
        _lead(loads, _fit_to_lead(loads))
        placed.append(loads)
        for rack in racks:
            rack.put_back(random)
    # Each change lowers the sum of the squares of what brokers lead: there is an end of them.
    while sum(_leads_better(loads) for loads in placed):
        pass
    return [[load.id for load in loads] for loads in placed]


def _fit_to_lead(loads: Sequence[_PlacedLoad]) -> _PlacedLoad:
    return min((load for load in loads if not load.fenced), key=lambda load: load.leads)


def _lead(loads: list[_PlacedLoad], leader: _PlacedLoad) -> None:
    """Put it first."""
    leader.leads += 1
    loads.remove(leader)
    loads.insert(0, leader)


def _leads_better(loads: list[_PlacedLoad]) -> bool:
    """Change the leader if that makes what brokers lead more even; whether it did."""
    fittest = _fit_to_lead(loads)
    if fittest.leads + 1 >= loads[0].leads:
        return False
    loads[0].leads -= 1
    _lead(loads, fittest)
    return True


class _PlacedLoad:
    """A broker, and what it holds by the placement so far."""

    __slots__ = ("cost", "fenced", "fill", "held", "id", "leads")

    def __init__(self, candidate: Candidate) -> None:
        self.id = candidate.broker.id
        self.fenced = candidate.broker.fenced
        self.held = candidate.held
        self.leads = candidate.leads
        self.fill = candidate.fill
        self.cost = candidate.cost


_Entry = tuple[bool, bool, int, float, float, int, _PlacedLoad]
"""Fenced, has its fill, held, cost, lot, id: in a heap the best is first."""


class _WaitingRack:
    """The brokers of a rack that wait for a replica, and those that the partition has."""

    def __init__(self, loads: Sequence[_PlacedLoad], random: Random) -> None:
        self.size = len(loads)
        self.held = sum(load.held for load in loads)
        self.waiting = [_entry(load, random) for load in loads]
        self.chosen: list[_PlacedLoad] = []
        heapify(self.waiting)

    def rank(self) -> tuple[float, ...]:
        """What is compared between racks; there is a broker waiting."""
        fenced, filled, held, cost, lot, _, _ = self.waiting[0]
        return fenced, len(self.chosen), filled, held, self.held / self.size, cost, lot

    def take(self) -> _PlacedLoad:
        load = heappop(self.waiting)[-1]
        load.held += 1
        self.held += 1
        self.chosen.append(load)
        return load

    def put_back(self, random: Random) -> None:
        for load in self.chosen:
            heappush(self.waiting, _entry(load, random))
        self.chosen.clear()


def _entry(load: _PlacedLoad, random: Random) -> _Entry:
    filled = load.held >= load.fill
    return load.fenced, filled, load.held, load.cost, random.random(), load.id, load


def _racks(candidates: Sequence[Candidate], random: Random) -> list[_WaitingRack]:
    by_name: dict[str, list[_PlacedLoad]] = {}
    for one in sorted(candidates, key=lambda one: one.broker.id):
        by_name.setdefault(one.broker.rack or "", []).append(_PlacedLoad(one))
    return [_WaitingRack(by_name[name], random) for name in sorted(by_name)]


def _loads(racks: Sequence[_WaitingRack], num_replicas: int) -> list[_PlacedLoad]:
    chosen = []
    for _ in range(num_replicas):
        best = min((rack for rack in racks if rack.waiting), key=_WaitingRack.rank)
        chosen.append(best.take())
    return chosen
