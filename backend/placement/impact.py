"""What a plan does to brokers and partitions, by arithmetic alone: no clock, no rates.

Goals
    The figures that an operator looks at before a plan is started: what is copied, and how full
    each broker becomes meanwhile and afterwards. They also say who leads, and whether racks or
    in-sync replicas suffer.

Constraints
    - A broker holds the replicas that go until the partition's last copy has come. So its peak is
      what it has and all that it receives, as if everything were copied at the same time.
    - A leader stays while it is in the target, as Kafka's controller has it; otherwise the first
      of the target leads.
    - A size that is not known counts as `Situation.sizes` has it, and is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.planning.impact import BrokerImpact, Impact
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.situation import Situation


def impact(
    situation: Situation,
    targets: Mapping[TopicPartition, Sequence[int]],
    caps: MoveCaps | None = None,
) -> Impact:
    """What a plan makes of a cluster; partitions that are already where it puts them are ignored.

    Args:
        situation: The cluster.
        targets: The replicas that partitions are to have, preferred leader first.
        caps: How many of them move at the same time; None: all of them.

    Raises:
        BadInput: the plan names a partition that is not there, or a broker that nobody knows.
    """
    changes = [one for one in _changes(situation, targets) if one.before != one.after]
    copied = [one for one in changes if one.added]
    return Impact(
        partitions=len(changes),
        reordered=sum(not one.added and not one.removed for one in changes),
        added=sum(len(one.added) for one in changes),
        removed=sum(len(one.removed) for one in changes),
        moved_bytes=sum(one.size_bytes * len(one.added) for one in changes),
        unknown_sizes=sum(not one.size_known for one in copied),
        leaders_moved=sum(one.leader not in one.after for one in changes),
        preferred_moved=sum(one.before[0] != one.after[0] for one in changes),
        fewer_racks=tuple(one.name for one in changes if _racks_gained(situation, one) < 0),
        more_racks=sum(_racks_gained(situation, one) > 0 for one in changes),
        under_min_isr=tuple(one.name for one in changes if len(one.after) < one.min_isr),
        on_the_edge=tuple(one.name for one in copied if one.in_sync <= one.min_isr),
        brokers=tuple(_brokers(situation, changes)),
        phases=tuple(_phases(changes, caps)),
    )


@dataclass(frozen=True, slots=True)
class _ChangedPartition:
    """One partition of the plan."""

    name: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int
    in_sync: int
    min_isr: int
    """-1 where it is not known."""
    size_bytes: int
    size_known: bool

    @property
    def added(self) -> Collection[int]:
        """Brokers that get a replica."""
        return set(self.after) - set(self.before)

    @property
    def removed(self) -> Collection[int]:
        """Brokers that lose theirs."""
        return set(self.before) - set(self.after)

    @property
    def leader_after(self) -> int:
        """Who leads once it has moved."""
        return self.leader if self.leader in self.after else self.after[0]


def refuse_unknown(
    situation: Situation, targets: Mapping[TopicPartition, Sequence[int]]
) -> Mapping[TopicPartition, int]:
    """The row of each partition that the cluster has.

    Raises:
        BadInput: the plan names a partition that is not there, or a broker that nobody knows.
    """
    rows = {name: row for row, name in enumerate(situation.partitions)}
    for name, target in targets.items():
        if name not in rows:
            raise BadInput(f"There is no partition {name}.", advice="Remove it from the plan.")
        unknown = sorted(set(target) - situation.brokers.keys())
        if unknown or not target:
            what = f"names broker {unknown[0]}, which is unknown" if unknown else "names no broker"
            raise BadInput(f"The plan's {name} {what}.", advice="Correct the plan.")
    return rows


def _changes(
    situation: Situation, targets: Mapping[TopicPartition, Sequence[int]]
) -> Iterator[_ChangedPartition]:
    rows = refuse_unknown(situation, targets)
    sizes = situation.sizes()
    for name, target in targets.items():
        row = rows[name]
        before = tuple(one for one in situation.replicas[row].tolist() if one != NO_BROKER)
        yield _ChangedPartition(
            name,
            before,
            tuple(target),
            int(situation.leader[row]),
            int(situation.in_sync[row].sum()),
            int(situation.min_isr[row]),
            int(sizes[row]),
            bool(situation.size_bytes[row] >= 0),
        )


def _phases(changes: Sequence[_ChangedPartition], caps: MoveCaps | None) -> Iterator[int]:
    """How many move together, were each phase to end before the next one begins."""
    if caps is None:
        yield from [len(changes)] if changes else []
        return
    waiting = sorted(changes, key=lambda one: one.size_bytes, reverse=not caps.smallest_first)
    while waiting:
        begun, later = 0, []
        at_work = Counter[int]()
        for one in waiting:
            ends = {one.leader, *one.added} if one.added else set()
            if begun < caps.in_cluster and all(at_work[each] < caps.per_broker for each in ends):
                at_work.update(ends)
                begun += 1
            else:
                later.append(one)
        yield begun
        waiting = later


def _racks_gained(situation: Situation, change: _ChangedPartition) -> int:
    """How many racks more the partition lies in; brokers without a rack are none."""

    def racks(brokers: Sequence[int]) -> int:
        return len({situation.brokers[one].rack for one in brokers} - {None})

    return racks(change.after) - racks(change.before)


def _brokers(situation: Situation, changes: Sequence[_ChangedPartition]) -> Iterator[BrokerImpact]:
    sizes = situation.sizes()
    there = situation.replicas != NO_BROKER
    held = situation.replicas[there]
    bytes_of = np.broadcast_to(sizes[:, None], situation.replicas.shape)[there]
    replicas, leaders = Counter(held.tolist()), Counter(situation.leader.tolist())
    # Sums of whole numbers: floating point would lose the last bytes of a large broker.
    order = np.argsort(held, kind="stable")
    ids, starts = np.unique(held[order], return_index=True)
    totals = np.add.reduceat(bytes_of[order], starts) if len(ids) else ids
    before = dict(zip(ids.tolist(), totals.tolist(), strict=True))
    gained, lost, led = Counter[int](), Counter[int](), Counter[int]()
    received, freed, sent = Counter[int](), Counter[int](), Counter[int]()
    for one in changes:
        gained.update(one.added)
        lost.update(one.removed)
        led.subtract([one.leader])
        led.update([one.leader_after])
        received.update(dict.fromkeys(one.added, one.size_bytes))
        freed.update(dict.fromkeys(one.removed, one.size_bytes))
        sent[one.leader] += one.size_bytes * len(one.added)
    for id, broker in sorted(situation.brokers.items()):
        dirs = [each.total_bytes for each in broker.log_dirs if each.error is None]
        yield BrokerImpact(
            id,
            replicas[id],
            replicas[id] + gained[id] - lost[id],
            leaders[id],
            leaders[id] + led[id],
            before.get(id, 0),
            before.get(id, 0) + received[id],
            before.get(id, 0) + received[id] - freed[id],
            received[id],
            sent[id],
            sum(dirs) if dirs and min(dirs) >= 0 else None,
        )
