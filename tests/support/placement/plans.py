"""Small clusters for planners, what any proposal has to keep, and the best found by trying all.

Nothing here uses the planners' own code: lists and numbers are worked out from plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.planning.proposal import Proposal
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, parse_plan
from kshunt.backend.errors import PlanError
from kshunt.backend.placement.plans.check import check_proposal
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation

Placement = Mapping[TopicPartition, tuple[int, ...]]
GB = 10**9


@dataclass
class World:
    """A cluster in plain values."""

    racks: dict[int, str | None]
    lists: dict[TopicPartition, tuple[int, ...]]
    sizes: dict[TopicPartition, int | None]
    down: frozenset[int] = frozenset()
    rooms: dict[int, int] = field(default_factory=dict)
    """Bytes that may be added to a broker; unlimited where it is not named."""
    isr: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    rates: dict[TopicPartition, tuple[float, float]] = field(default_factory=dict)

    @property
    def up(self) -> list[int]:
        """Brokers that run."""
        return sorted(set(self.racks) - self.down)

    def situation(self) -> Situation:
        """What a planner is given."""
        return Situation.of(
            [self._facts(name, replicas) for name, replicas in self.lists.items()],
            [
                BrokerFacts(broker, rack, broker not in self.down, self._disk(broker))
                for broker, rack in self.racks.items()
            ],
        )

    def _facts(self, name: TopicPartition, replicas: tuple[int, ...]) -> PartitionSituation:
        isr = self.isr.get(name, tuple(b for b in replicas if b not in self.down))
        into, out = self.rates.get(name, (None, None))
        return PartitionSituation(
            name, replicas, isr[0] if isr else -1, isr, self.sizes[name], into, out
        )

    def _disk(self, broker: int) -> tuple[LogDir, ...]:
        """A volume of which what is used is such that 0.85 of it leaves that room."""
        if broker not in self.rooms:
            return ()
        total = 100_000
        usable = 15_000 + self.rooms[broker]
        return (LogDir(broker, "/data", total, usable),)

    def spread(self, replicas: Iterable[int]) -> int:
        """How many known racks the replicas are in."""
        return len({self.racks.get(broker) for broker in replicas} - {None})

    def size(self, name: TopicPartition) -> int:
        """Of a partition whose size is known."""
        found = self.sizes[name]
        assert found is not None
        return found

    def moved_bytes(self, after: Placement) -> int:
        """What has to be copied to get there."""
        return sum(
            self.size(name) * len(set(target) - set(self.lists[name]))
            for name, target in after.items()
        )

    def fits(self, after: Placement) -> bool:
        """Whether all copies find room while nothing has been deleted."""
        added = dict.fromkeys(self.rooms, 0)
        for name, target in after.items():
            for broker in set(target) - set(self.lists[name]):
                if broker in added:
                    added[broker] += self.size(name)
        return all(added[broker] <= self.rooms[broker] for broker in added)


def tp(partition: int, topic: str = "t") -> TopicPartition:
    """A partition's name."""
    return TopicPartition(topic, partition)


def world(
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    racks: Mapping[int, str | None],
    **more: object,
) -> World:
    """A cluster with one topic `t`."""
    names = [tp(partition) for partition in range(len(lists))]
    return World(
        racks=dict(racks),
        lists={name: tuple(each) for name, each in zip(names, lists, strict=True)},
        sizes=dict(zip(names, sizes, strict=True)),
        **more,  # type: ignore[arg-type]
    )


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    partitions: int = 4,
    brokers: int = 5,
    tight: bool = True,
    down: bool = True,
    traffic: bool = False,
) -> World:
    """Three to five brokers with racks, some racks or none; up to four partitions."""
    ids = draw(st.lists(st.integers(0, 9), min_size=3, max_size=brokers, unique=True))
    named = draw(st.sampled_from((("a", "b", "c"), (None,), ("a", "b", None))))
    racks = {broker: draw(st.sampled_from(named)) for broker in ids}
    count = draw(st.integers(1, partitions))
    found = world(
        [draw(st.permutations(ids))[: draw(st.integers(1, 3))] for _ in range(count)],
        [draw(st.integers(1, 100)) for _ in range(count)],
        racks,
    )
    if down and draw(st.booleans()):
        found.down = frozenset({draw(st.sampled_from(ids))})
    if tight and draw(st.booleans()):
        found.rooms = {b: draw(st.integers(0, 150)) for b in ids if draw(st.booleans())}
    if traffic:
        found.rates = {
            name: (float(draw(st.integers(0, 50))), float(draw(st.integers(0, 50))))
            for name in found.lists
        }
    return found


def outcome(found: World, proposal: Proposal) -> dict[TopicPartition, tuple[int, ...]]:
    """Where everything is in the end, by what the proposal's JSON says."""
    if not proposal.targets:
        return dict(found.lists)
    return applied(found.lists, parse_plan(proposal.plan_json))


def check_invariants(found: World, proposal: Proposal, *, factor_stays: bool = True) -> None:
    """What every proposal keeps, whatever its goal."""
    check_proposal(proposal, found.situation(), Scope(), factor_stays=factor_stays)
    after = outcome(found, proposal)
    for name, target in after.items():
        old = found.lists[name]
        assert len(set(target)) == len(target) > 0
        assert set(target) - set(old) <= set(found.up)
        assert found.spread(target) >= min(found.spread(old), len(target))
        if factor_stays:
            assert len(target) == len(old)
        assert (name in proposal.targets) == (target != old or name in moved_dirs(proposal))
    check_untouched(proposal, found.lists, after)
    assert found.fits(after)
    assert proposal.cost.moved_bytes == found.moved_bytes(after)
    if proposal.targets:
        assert applied(after, parse_plan(proposal.rollback_json)) == found.lists
    assert proposal.measure.after <= proposal.measure.before + 1e-6


def moved_dirs(proposal: Proposal) -> set[TopicPartition]:
    """Partitions of which a replica changes its directory."""
    return {name for name, _ in proposal.log_dirs}


def all_lists(
    found: World, name: TopicPartition, *, receivers: Iterable[int], factor: int | None = None
) -> Iterator[tuple[int, ...]]:
    """Every set of brokers that the partition could be on, as a list that keeps places."""
    old = found.lists[name]
    wanted = len(old) if factor is None else factor
    pool = [*old, *(b for b in receivers if b not in old and b not in found.down)]
    for members in combinations(pool, wanted):
        if found.spread(members) >= min(found.spread(old), wanted):
            new = [broker for broker in members if broker not in old]
            if wanted == len(old):
                yield tuple(b if b in members else new.pop(0) for b in old)
            else:
                yield tuple(b for b in old if b in members) + tuple(new)


def least_bytes(
    found: World,
    options: Mapping[TopicPartition, Sequence[tuple[int, ...]]],
    reached: Callable[[Placement], bool],
) -> int | None:
    """The fewest bytes by which `reached` can be had; None if it cannot. Tries everything."""
    best: int | None = None
    names = list(options)
    for lists in product(*options.values()):
        after = {**found.lists, **dict(zip(names, lists, strict=True))}
        cost = found.moved_bytes(after)
        if (best is None or cost < best) and found.fits(after) and reached(after):
            best = cost
    return best


def check_cheap(proposal: Proposal, best: int | None, *, most: float = 1.1) -> None:
    """The planner's bytes are at most `most` times the best there is for what it reached."""
    assert best is not None
    assert proposal.cost.moved_bytes <= most * best + 1e-6


def applied(
    current: Mapping[TopicPartition, Sequence[int]], plan: ReassignmentPlan
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where every partition of `current` is once `plan` is carried out.

    Raises:
        PlanError: the plan names a partition that is not in `current`.
    """
    strangers = sorted(plan.replicas.keys() - current.keys())
    if strangers:
        raise PlanError(f"partition {strangers[0]} of the plan is not there.")
    after = {partition: tuple(replicas) for partition, replicas in current.items()}
    after.update({partition: tuple(target) for partition, target in plan.replicas.items()})
    return after


def check_untouched(
    proposal: Proposal,
    before: Mapping[TopicPartition, Sequence[int]],
    after: Mapping[TopicPartition, Sequence[int]],
) -> None:
    """Prove that a proposal, once carried out, changed what it names and nothing else.

    Args:
        proposal: what was carried out.
        before: the replicas of every partition at the time of planning.
        after: the same now; partitions that were created since are ignored.

    Raises:
        PlanError: a partition of the proposal was elsewhere before, or is not on its target; or
            another partition changed or is gone.
    """
    for partition, replicas in before.items():
        expected = tuple(replicas)
        if partition in proposal.targets:
            if expected != tuple(proposal.before[partition]):
                raise PlanError(f"partition {partition} was not where the proposal takes it from.")
            expected = tuple(proposal.targets[partition])
        found = after.get(partition)
        if found is None or tuple(found) != expected:
            raise PlanError(
                f"partition {partition} is on {list(found or ())}, and {list(expected)} was "
                "expected.",
                advice="Compare the cluster with the rollback plan before going on.",
            )
    strangers = sorted(proposal.targets.keys() - before.keys())
    if strangers:
        raise PlanError(f"partition {strangers[0]} of the proposal was not there.")
