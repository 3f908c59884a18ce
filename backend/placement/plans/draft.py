"""A proposal in the making: replica lists that planners change, and what every one has to keep.

Goals
    One place for the rules that hold whatever the goal is, so that no planner can forget one.
Constraints
    - A replica goes only to a broker that is up, is not banned and has none of the partition.
    - A partition spans no fewer racks than before (`Scope.keep_racks`). A broker of unknown
      rack adds nothing to the spread: it neither helps a partition nor hurts it by going.
    - What is added fits: a broker's volumes may be used up to `Scope.disk_fraction` of their size.
      What a broker loses is not counted as free, because Kafka deletes a replica only when the
      whole move of its partition is done. Directories of one broker count together.
    - Topics outside the scope, partitions that are being reassigned, and those that are about to
      be deleted do not change.
Algorithm
    Brokers are numbered in an order drawn by the seed, so that the first of several equals is a
    fair choice and the same seed chooses the same. A list is changed in place; its first state is
    kept when it is first touched, and the proposal is the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace as changed
from random import Random

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import why_left_out
from kshunt.backend.domain.planning.proposal import Cost, Measure, PlanNote, Proposal
from kshunt.backend.domain.text.formatting import bytes_text, listed, many
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, Situation

NO_RACK = -1


class PlanDraft:
    """See the module's text. Brokers are indexes into `ids`, partitions rows of the situation."""

    def __init__(self, situation: Situation, scope: Scope) -> None:
        self.situation = situation
        self.scope = scope
        self.ids = Random(scope.seed).sample(sorted(situation.brokers), len(situation.brokers))
        self.index = {broker: index for index, broker in enumerate(self.ids)}
        self.facts = [situation.brokers[broker] for broker in self.ids]
        self.table = self._translated(situation.replicas)
        self.replicas = [
            row[: row.index(NO_BROKER)] if row[-1] == NO_BROKER else row
            for row in self.table.tolist()
        ]
        self.leader = self._translated(situation.leader).tolist()
        self.sizes = situation.sizes()
        self.movable = self._movable()
        self.up = np.array([facts.up for facts in self.facts], np.bool_)
        self.usable = self.up.copy()
        """Where something may be placed. Shape (brokers,)."""
        self.used = self.sum_by_broker(self.sizes.astype(np.float64))
        """Bytes that each broker holds, by the sizes planned with. Shape (brokers,)."""
        self.racks = _rack_numbers(self.facts)
        self.room = np.array([room_bytes(facts, scope.disk_fraction) for facts in self.facts])
        """Bytes that may yet be added; infinity where it is not known. Shape (brokers,)."""
        self._before: dict[int, tuple[int, ...]] = {}
        self._need: dict[int, int] = {}
        self._lessened: list[int] = []
        self._claim_running()

    def name(self, row: int) -> TopicPartition:
        """The partition of a row."""
        return self.situation.partitions[row]

    def size(self, row: int) -> int:
        """Bytes that one more replica takes, by the sizes planned with."""
        return int(self.sizes[row])

    def require(self, brokers: Iterable[int]) -> list[int]:
        """The indexes of brokers that a goal names.

        Raises:
            BadInput: none is named, or one is not part of the cluster.
        """
        named = list(dict.fromkeys(brokers))
        unknown = [broker for broker in named if broker not in self.index]
        if unknown or not named:
            raise BadInput(
                f"Unknown broker id {listed(unknown)}." if named else "No broker is named.",
                advice=f"Brokers of this cluster: {listed(sorted(self.index), 20)}. "
                "Nothing was planned.",
            )
        return [self.index[broker] for broker in named]

    def changed_rows(self) -> list[int]:
        """Partitions that were touched, in the order of the rows."""
        return sorted(self._before)

    def may_lead(self, row: int, broker: int) -> bool:
        """Whether a broker of the list is up and its replica in sync."""
        place = self.table[row] == broker
        return bool(self.up[broker] and (self.situation.in_sync[row] & place).any())

    def held(self, brokers: Iterable[int]) -> list[tuple[int, int]]:
        """(row, broker) of each replica there, largest first; rows that may not move included."""
        rows, places = np.nonzero(np.isin(self.table, list(brokers)))
        order = np.lexsort((places, rows, -self.sizes[rows]))
        there = self.table[rows, places]
        return list(zip(rows[order].tolist(), there[order].tolist(), strict=True))

    def sum_by_broker(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of a weight of each partition over the replicas of each broker. Shape (brokers,)."""
        rows, places = np.nonzero(self.table != NO_BROKER)
        there = self.table[rows, places]
        return np.bincount(there, weights[rows], minlength=len(self.ids)).astype(np.float64)

    def need(self, row: int) -> int:
        """How many racks the partition spanned before anything was changed."""
        found = self._need.get(row)
        if found is None:
            found = self._need[row] = len(self.racks_of(self._before.get(row, self.replicas[row])))
        return found

    def racks_of(self, brokers: Iterable[int]) -> set[int]:
        """The racks of some brokers, without the unknown one."""
        return {self.racks[broker] for broker in brokers} - {NO_RACK}

    def candidates(self, row: int, *, roomy: bool = True) -> NDArray[np.bool_]:
        """Brokers that could host one more replica, whatever its rack. Shape (brokers,)."""
        mask = self.usable & (self.room >= self.sizes[row]) if roomy else self.usable.copy()
        mask[self.replicas[row]] = False
        return mask

    def destinations(
        self, row: int, leaving: int | None = None, *, roomy: bool = True
    ) -> NDArray[np.bool_]:
        """Brokers that may take a replica, in place of `leaving`'s if given. Shape (brokers,)."""
        mask = self.candidates(row, roomy=roomy)
        stay = self.racks_of(broker for broker in self.replicas[row] if broker != leaving)
        if len(stay) < self.need(row):
            mask &= self.new_rack(stay)
        return mask

    def new_rack(self, used_racks: set[int]) -> NDArray[np.bool_]:
        """Brokers in a rack that is known and not among these. Shape (brokers,)."""
        return np.array(
            [rack not in used_racks and rack != NO_RACK for rack in self.racks], np.bool_
        )

    def choose(self, row: int, leaving: int | None = None) -> int | None:
        """The broker that holds the fewest bytes of those that may take a replica, or None."""
        found = first_least(self.destinations(row, leaving), self.used)
        if found is not None or self.scope.keep_racks:
            return found
        mask = self.candidates(row)
        stay = self.racks_of(broker for broker in self.replicas[row] if broker != leaving)
        fresh = mask & self.new_rack(stay)
        found = first_least(fresh if fresh.any() else mask, self.used)
        if found is not None:
            self._lessened.append(row)
        return found

    def replace(self, row: int, old: int, new: int) -> None:
        """Put a replica on `new`, in the place that `old` has in the list."""
        self._touch(row)
        replicas = self.replicas[row]
        replicas[replicas.index(old)] = new
        self._arrive(row, new)
        self.used[old] -= self.sizes[row]
        if old not in self._before[row]:
            self.room[old] += self.sizes[row]

    def add(self, row: int, broker: int) -> None:
        """Put one more replica at the end of the list."""
        self._touch(row)
        self.replicas[row].append(broker)
        self._arrive(row, broker)

    def drop(self, row: int, broker: int) -> None:
        """Take a replica away."""
        self._touch(row)
        self.replicas[row].remove(broker)
        self.used[broker] -= self.sizes[row]

    def may_return(self, row: int, there: int, home: int) -> bool:
        """Whether a replica that was to go to a broker may stay where it is instead."""
        stay = [broker for broker in self.replicas[row] if broker != there]
        return home not in stay and len(self.racks_of([*stay, home])) >= self.need(row)

    def prefer(self, row: int, broker: int) -> None:
        """Let a broker of the list change places with the first one.

        With the first one that there was, where the list has been reordered before: the others
        are then where they were.
        """
        self._touch(row)
        if set(self._before[row]) == set(self.replicas[row]):
            self.replicas[row] = list(self._before[row])
        replicas = self.replicas[row]
        place = replicas.index(broker)
        replicas[0], replicas[place] = broker, replicas[0]

    def set_list(self, row: int, brokers: list[int]) -> None:
        """Give a partition another list."""
        old = set(self.replicas[row])
        self._touch(row)
        self.replicas[row] = list(brokers)
        for broker in brokers:
            if broker not in old:
                self._arrive(row, broker)
        for broker in old - set(brokers):
            self.used[broker] -= self.sizes[row]

    def obstacle(self, row: int, leaving: int | None = None) -> PlanNote:
        """Why `choose` finds no broker."""
        note = PlanNote("", "", self.name(row), None if leaving is None else self.ids[leaving])
        free = self.usable.copy()
        free[self.replicas[row]] = False
        if not free.any():
            return changed(
                note,
                why="Every broker that could take a replica already has one of it.",
                remedy="Add a broker, or lower the replication factor first.",
            )
        if not self.destinations(row, leaving, roomy=False).any() and self.scope.keep_racks:
            return changed(
                note,
                why="On every possible broker, the partition would span fewer racks.",
                remedy="Add a broker in another rack, or allow fewer racks.",
            )
        return changed(
            note,
            why=f"No broker has space for {bytes_text(self.size(row))} below "
            f"{self.scope.disk_fraction:.0%} of its disks.",
            remedy="Free some space, add a broker, or raise the disk fraction.",
        )

    def fixed(self, row: int, broker: int | None = None) -> PlanNote:
        """Why a partition that a goal concerns may not change (`movable` is False)."""
        note = PlanNote("", "", self.name(row), None if broker is None else self.ids[broker])
        if self.name(row) in self.situation.moving:
            return changed(
                note,
                why="It is being reassigned, and stays as it is.",
                remedy="Plan again when that is done, or cancel it.",
            )
        mode = self.situation.leaving.get(self.name(row))
        if mode is not None:
            return changed(
                note,
                why=f"{why_left_out(mode)} It stays as it is.",
                remedy="Plan again if its deletion is cancelled.",
            )
        return changed(note, why="Its topic is left out of the plan.", remedy="Include it.")

    def proposal(self, goal: str, measure: Measure, notes: Iterable[PlanNote] = ()) -> Proposal:
        """What has come of it; lists that came back to what they were are no part of it."""
        pairs = {
            self.name(row): (self._named(before), self._named(self.replicas[row]))
            for row, before in sorted(self._before.items())
            if before != tuple(self.replicas[row])
        }
        return Proposal(
            goal=goal,
            before={partition: pair[0] for partition, pair in pairs.items()},
            targets={partition: pair[1] for partition, pair in pairs.items()},
            cost=self.cost(),
            measure=measure,
            notes=(*notes, *self._reservations()),
        )

    def cost(self) -> Cost:
        """What the changes so far take."""
        gains = [(row, len(gained)) for row, gained in self._gains()]
        known = [(row, n) for row, n in gains if self.situation.size_bytes[row] >= 0]
        lists = [(before, self.replicas[row]) for row, before in self._before.items()]
        return Cost(
            moved_bytes=sum(int(self.situation.size_bytes[row]) * n for row, n in known),
            moved_replicas=sum(n for _, n in gains),
            unknown_sizes=sum(n for _, n in gains) - sum(n for _, n in known),
            dropped_replicas=sum(max(len(old) - len(new), 0) for old, new in lists),
            reordered=sum(set(old) == set(new) and old != tuple(new) for old, new in lists),
        )

    def _gains(self) -> Iterator[tuple[int, set[int]]]:
        for row, before in self._before.items():
            gained = set(self.replicas[row]) - set(before)
            if gained:
                yield row, gained

    def _reservations(self) -> Iterator[PlanNote]:
        """What the proposal rests on and nobody has measured, and racks that it gives up."""
        for row in dict.fromkeys(self._lessened):
            now, before = len(self.racks_of(self.replicas[row])), self.need(row)
            if now < before:
                why = f"It will span {now} instead of {before} racks."
                yield PlanNote(
                    why, "Repair its racks when there is a broker for it.", self.name(row)
                )
        blind = {broker for _, gained in self._gains() for broker in gained}
        blind = {broker for broker in blind if np.isinf(self.room[broker])}
        if blind:
            names = listed(sorted(self.ids[broker] for broker in blind))
            yield PlanNote(
                f"The disks of broker {names} are unknown; the plan assumes that they are large "
                "enough.",
                "Compare the moved bytes with the space on them.",
            )
        unknown = self.cost().unknown_sizes
        if unknown:
            yield PlanNote(
                f"{many(unknown, 'replica')} of unknown size move; each counts as the largest "
                "known one.",
                "Plan again when every broker has reported its sizes.",
            )

    def _named(self, brokers: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.ids[broker] for broker in brokers)

    def _touch(self, row: int) -> None:
        if row not in self._before:
            self._before[row] = tuple(self.replicas[row])

    def _arrive(self, row: int, broker: int) -> None:
        self.used[broker] += self.sizes[row]
        if broker not in self._before[row]:
            self.room[broker] -= self.sizes[row]

    def _translated(self, brokers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Indexes for ids; `NO_BROKER` stays what it is."""
        known = np.array(sorted(self.index), np.int64)
        places = np.array([self.index[broker] for broker in sorted(self.index)], np.int64)
        if not len(known):
            return np.full(brokers.shape, NO_BROKER, np.int64)
        found = np.minimum(np.searchsorted(known, brokers), len(known) - 1)
        translated: NDArray[np.int64] = np.where(known[found] == brokers, places[found], NO_BROKER)
        return translated

    def _movable(self) -> NDArray[np.bool_]:
        topics = {partition.topic for partition in self.situation.partitions}
        chosen = {topic for topic in topics if self.scope.selects(topic)}
        if topics and not chosen:
            raise BadInput(
                f"No topic matches {listed(self.scope.include)}; nothing was planned.",
                advice="Use shell patterns: orders-*.",
            )
        fixed = self.situation.moving.keys() | self.situation.leaving.keys()
        return np.array(
            [each.topic in chosen and each not in fixed for each in self.situation.partitions],
            np.bool_,
        )

    def _claim_running(self) -> None:
        """Keep room for what running reassignments have yet to bring."""
        if not self.situation.moving:
            return
        rows = {partition: row for row, partition in enumerate(self.situation.partitions)}
        for partition, move in self.situation.moving.items():
            for broker in move.adding:
                if partition in rows and broker in self.index:
                    self.room[self.index[broker]] -= self.sizes[rows[partition]]


def first_least(mask: NDArray[np.bool_], keys: NDArray[np.float64]) -> int | None:
    """The first of the marked brokers whose key is the least, or None if none is marked."""
    found = int(np.where(mask, keys, np.inf).argmin())
    return found if mask[found] else None


def room_bytes(facts: BrokerFacts, fraction: float) -> float:
    """What may be added to a broker's volumes; infinity where one of them is not known."""
    sound = [each for each in facts.log_dirs if each.error is None]
    if not sound or any(each.total_bytes < 0 or each.usable_bytes < 0 for each in sound):
        return float("inf")
    return sum(
        max(fraction * each.total_bytes - (each.total_bytes - each.usable_bytes), 0.0)
        for each in sound
    )


def _rack_numbers(facts: Iterable[BrokerFacts]) -> list[int]:
    racks = [each.rack for each in facts]
    number = {rack: index for index, rack in enumerate(sorted({r for r in racks if r}))}
    return [NO_RACK if not rack else number[rack] for rack in racks]
