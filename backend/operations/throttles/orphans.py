"""Orphan throttles: rates and replica lists that no move justifies and that are not ours.

Goals
    List what a crashed tool or a forgotten `--verify` left on, say where it is likely to be from,
    and say what removing it would write.
Constraints
    Pure. What a running move needs, ours or anybody's, is never offered, and `removal` judges again
    by the facts of that moment. What could not be read is not judged. Kafka does not say who wrote
    a value, so an origin is a guess, and says so.
Algorithm
    A listed replica is justified while its partition moves, whatever its broker, or while an
    operation of ours holds it. A rate is justified while its broker takes part in a move, or an
    operation of ours holds it or a replica there. What is left is grouped by its likely origin:
    Kafka's own tool lists a partition's sources on the leaders' side and its targets on the
    followers' side (KIP-73). So a partition that has all its targets has arrived, and one that has
    none and all its sources was cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import OrphanOrigin, ShareState
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    SettingValues,
)


@dataclass(frozen=True, slots=True)
class OrphanRate:
    """A broker's own rate that nothing justifies."""

    broker: int
    key: RateKey
    rate_bytes_per_s: int
    origin: OrphanOrigin
    operations: tuple[str, ...] = ()
    """Our operations that left it, if any."""


@dataclass(frozen=True, slots=True)
class OrphanReplicas:
    """Listed replicas of one topic, of one likely origin, that nothing justifies."""

    topic: str
    key: ListKey
    replicas: ReplicaSet
    origin: OrphanOrigin
    operations: tuple[str, ...] = ()
    """Our operations that left them, if any."""


Orphan: TypeAlias = OrphanRate | OrphanReplicas


@dataclass(frozen=True, slots=True)
class OrphanFacts:
    """What orphans are told from."""

    present: FoundSettings
    ownership: Ownership
    ongoing: Mapping[TopicPartition, OngoingReassignment]
    """Every partition that moves now, of anybody."""
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    """Where partitions are, of every topic in `present`."""
    log_dir_moves: frozenset[int] = frozenset()
    """Brokers on which a replica moves between log directories."""

    def needed_partitions(self, topic: str) -> frozenset[int]:
        """Numbers of the topic's partitions that move."""
        return frozenset(number for name, number in self.ongoing if name == topic)

    def needed_brokers(self) -> frozenset[int]:
        """Brokers that take part in a move, or that an operation of ours has listed."""
        moving = {broker for move in self.ongoing.values() for broker in move.replicas}
        held = {b for cell in self.ownership.lists.values() for _, b in cell.held_pairs}
        return frozenset(moving | held)


@dataclass(frozen=True, slots=True)
class OrphanRemoval:
    """What removing orphans writes, and what of the wish is left as it is.

    Where the operation that left a rate is known, the rate from before it is put back.
    """

    writes: SettingValues
    left_alone: Mapping[Orphan, str]
    """The reason, by orphan."""


def orphans(situation: OrphanFacts) -> tuple[Orphan, ...]:
    """Every orphan, by topic and then by broker."""
    replicas = tuple(_orphan_replicas(situation))
    return (*replicas, *_orphan_rates(situation, replicas))


def _orphan_replicas(situation: OrphanFacts) -> Iterator[OrphanReplicas]:
    topics = sorted({topic for topic, _ in situation.present.lists})
    for topic in topics:
        moving = situation.needed_partitions(topic)
        origins = _Origins.of(topic, situation)
        for key in ListKey:
            listed = situation.present.lists.get((topic, key), ReplicaSet())
            if listed.everything:
                held = any(situation.ownership.held_pairs((topic, side)) for side in ListKey)
                if not moving and not held:
                    yield OrphanReplicas(topic, key, listed, OrphanOrigin.UNKNOWN)
                continue
            held_here = situation.ownership.held_pairs((topic, key))
            loose = {pair for pair in listed.pairs - held_here if pair[0] not in moving}
            yield from _grouped((topic, key), loose, origins, situation.ownership)


def _grouped(
    cell: ListCellId, pairs: Iterable[tuple[int, int]], origins: _Origins, ownership: Ownership
) -> Iterator[OrphanReplicas]:
    groups: dict[tuple[OrphanOrigin, tuple[str, ...]], set[tuple[int, int]]] = {}
    for pair in sorted(pairs):
        left_by = _left_pair(ownership, cell, pair)
        origin = OrphanOrigin.LEFT_BY_US if left_by else origins.of_partition(pair[0])
        groups.setdefault((origin, left_by), set()).add(pair)
    for (origin, left_by), group in groups.items():
        yield OrphanReplicas(*cell, ReplicaSet(frozenset(group)), origin, left_by)


def _left_pair(ownership: Ownership, cell: ListCellId, pair: tuple[int, int]) -> tuple[str, ...]:
    if cell not in ownership.lists:
        return ()
    shares = ownership.lists[cell].shares
    return tuple(
        sorted(o for o, s in shares.items() if s.state is not ShareState.HELD and pair in s.pairs)
    )


@dataclass(frozen=True, slots=True)
class _Origins:
    """What the two lists of a topic say together."""

    topic: str
    leaders: ReplicaSet
    followers: ReplicaSet
    replicas: Mapping[TopicPartition, tuple[int, ...]]

    @classmethod
    def of(cls, topic: str, situation: OrphanFacts) -> _Origins:
        def listed(key: ListKey) -> ReplicaSet:
            return situation.present.lists.get((topic, key), ReplicaSet())

        return cls(topic, listed(ListKey.LEADERS), listed(ListKey.FOLLOWERS), situation.replicas)

    def of_partition(self, number: int) -> OrphanOrigin:
        where = self.replicas.get(TopicPartition(self.topic, number))
        if where is None:
            return OrphanOrigin.NO_SUCH_PARTITION
        sources = {broker for partition, broker in self.leaders.pairs if partition == number}
        targets = {broker for partition, broker in self.followers.pairs if partition == number}
        if not sources or not targets or sources & targets:
            return OrphanOrigin.UNKNOWN
        if targets <= set(where):
            return OrphanOrigin.ENDED_MOVE
        if sources <= set(where) and not targets & set(where):
            return OrphanOrigin.CANCELLED_MOVE
        return OrphanOrigin.UNKNOWN


def _orphan_rates(
    situation: OrphanFacts, replicas: Iterable[OrphanReplicas]
) -> Iterator[OrphanRate]:
    needed = situation.needed_brokers()
    origins: dict[int, OrphanOrigin] = {}
    for orphan in replicas:
        if orphan.origin in (OrphanOrigin.ENDED_MOVE, OrphanOrigin.CANCELLED_MOVE):
            origins.update((broker, orphan.origin) for _, broker in orphan.replicas.pairs)
    for cell, found in sorted(situation.present.rates.items()):
        own = found.own_bytes_per_s
        if own is None or _rate_needed(cell, needed, situation):
            continue
        left_by = _left_rate(situation.ownership, cell, own)
        origin = (
            OrphanOrigin.LEFT_BY_US if left_by else _rate_origin(cell, origins, situation.present)
        )
        yield OrphanRate(*cell, own, origin, left_by)


def _rate_needed(cell: RateCellId, needed: frozenset[int], situation: OrphanFacts) -> bool:
    broker, key = cell
    if cell in situation.ownership.rates and situation.ownership.rates[cell].live:
        return True
    return broker in (situation.log_dir_moves if key is RateKey.LOG_DIRS else needed)


def _left_rate(ownership: Ownership, cell: RateCellId, own: int) -> tuple[str, ...]:
    if cell not in ownership.rates:
        return ()
    shares = ownership.rates[cell].shares
    return tuple(sorted(o for o, share in shares.items() if share.rate_bytes_per_s == own))


def _rate_origin(
    cell: RateCellId, origins: Mapping[int, OrphanOrigin], present: FoundSettings
) -> OrphanOrigin:
    broker, key = cell
    if key is RateKey.LOG_DIRS:
        return OrphanOrigin.UNKNOWN
    lists = present.lists.values()
    if not any(one.everything or any(b == broker for _, b in one.pairs) for one in lists):
        return OrphanOrigin.UNLISTED_RATE
    both = {
        present.rates[broker, side].own_bytes_per_s
        for side in (RateKey.LEADER, RateKey.FOLLOWER)
        if (broker, side) in present.rates
    }
    # Kafka's tool sets one rate on both sides.
    return origins.get(broker, OrphanOrigin.UNKNOWN) if len(both) == 1 else OrphanOrigin.UNKNOWN


def removal(chosen: Iterable[Orphan], situation: OrphanFacts) -> OrphanRemoval:
    """What to write so that the chosen orphans are gone, as far as they still are orphans."""
    rates: dict[RateCellId, int | None] = {}
    gone: dict[ListCellId, ReplicaSet] = {}
    left_alone: dict[Orphan, str] = {}
    still_rates, still_replicas = _still(situation)
    for orphan in chosen:
        if isinstance(orphan, OrphanRate):
            cell = orphan.broker, orphan.key
            if still_rates.get(cell) == orphan.rate_bytes_per_s:
                rates[cell] = _remembered(orphan, situation.ownership)
            else:
                left_alone[orphan] = _why_rate(orphan, situation)
            continue
        place = orphan.topic, orphan.key
        loose = _common(orphan.replicas, still_replicas.get(place, ReplicaSet()))
        if loose:
            gone[place] = gone.get(place, ReplicaSet()) | loose
        if loose != orphan.replicas:
            left_alone[orphan] = f"{_count(orphan, loose)}: a move needs them now, or they changed"
    lists = {place: situation.present.lists[place] - loose for place, loose in gone.items()}
    return OrphanRemoval(SettingValues(rates, lists), left_alone)


def _remembered(orphan: OrphanRate, ownership: Ownership) -> int | None:
    """The broker's own rate from before the operation that left the orphan, if it is known."""
    known = ownership.rates.get((orphan.broker, orphan.key))
    before = None if known is None or known.prior is None else known.prior.own_bytes_per_s
    return before if orphan.operations and before != orphan.rate_bytes_per_s else None


def _still(situation: OrphanFacts) -> tuple[dict[RateCellId, int], dict[ListCellId, ReplicaSet]]:
    rates: dict[RateCellId, int] = {}
    replicas: dict[ListCellId, ReplicaSet] = {}
    for orphan in orphans(situation):
        if isinstance(orphan, OrphanRate):
            rates[orphan.broker, orphan.key] = orphan.rate_bytes_per_s
        else:
            place = orphan.topic, orphan.key
            replicas[place] = replicas.get(place, ReplicaSet()) | orphan.replicas
    return rates, replicas


def _common(wanted: ReplicaSet, still: ReplicaSet) -> ReplicaSet:
    if wanted.everything or still.everything:
        return wanted if wanted == still else ReplicaSet()
    return ReplicaSet(wanted.pairs & still.pairs)


def _count(orphan: OrphanReplicas, loose: ReplicaSet) -> str:
    if orphan.replicas.everything:
        return "* stays"
    return f"{len(orphan.replicas.pairs) - len(loose.pairs)} of {len(orphan.replicas.pairs)} stay"


def _why_rate(orphan: OrphanRate, situation: OrphanFacts) -> str:
    found = situation.present.rates.get((orphan.broker, orphan.key))
    if found is None:
        return "the broker's configuration could not be read"
    if found.own_bytes_per_s is None:
        return "it was already removed"
    if found.own_bytes_per_s != orphan.rate_bytes_per_s:
        return f"it was changed to {exact_rate_text(found.own_bytes_per_s)} since then"
    return "a move needs it now"
