"""What holds for any proposal, checked anew from plain values and without any planner's code.

Goals
    A proposal that breaks a rule is found before it is shown, whichever planner made it.
Constraints
    Shares nothing with `draft`: it reads the situation and the proposal, and counts by itself.
Algorithm
    Each rule in turn for each partition that the proposal names; then what all copies together take
    of each broker's disks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.proposal import Proposal
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.errors import PlanError
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, Situation


def check_proposal(
    proposal: Proposal, situation: Situation, scope: Scope, *, factor_stays: bool = True
) -> None:
    """Stop a proposal that breaks a rule.

    Args:
        proposal: what a planner made of the situation.
        situation: what it was given.
        scope: what it was told to keep.
        factor_stays: False where the goal is another replication factor.

    Raises:
        PlanError: the proposal breaks a rule. The reasons are:

            - A partition is not where the proposal takes it from.
            - A partition changes its replication factor, where that has to stay.
            - A partition has no replica, or two on one broker.
            - A partition gains a replica on a broker that is unknown or down.
            - A partition spans fewer racks than before (unless the scope allows it).
            - A partition is out of scope, is being reassigned or leaves.
            - The copies do not fit.
    """
    broken = list(_broken(proposal, situation, scope, factor_stays))
    if broken:
        raise PlanError(
            f"the proposal to {proposal.goal} breaks {len(broken)} rules: {listed(broken, 3)}.",
            advice="This is a defect of the planner. Nothing was changed; do not use the plan.",
        )


def _broken(
    proposal: Proposal, situation: Situation, scope: Scope, factor_stays: bool
) -> Iterator[str]:
    current = situation.current()
    if proposal.before.keys() != proposal.targets.keys():
        yield "it does not have a list before for each list after"
        return
    for partition, target in proposal.targets.items():
        before = proposal.before[partition]
        if current.get(partition) != before:
            yield f"{partition} is not on {list(before)}"
        untouchable = partition in situation.moving or partition in situation.leaving
        if untouchable or not scope.selects(partition.topic):
            yield f"{partition} must not be changed"
        if factor_stays and len(target) != len(before):
            yield f"{partition} has {len(target)} replicas, but had {len(before)}"
        yield from _broken_list(partition, before, target, situation, scope)
    yield from _overfull(proposal, situation, scope)


def _broken_list(
    partition: TopicPartition,
    before: tuple[int, ...],
    target: tuple[int, ...],
    situation: Situation,
    scope: Scope,
) -> Iterator[str]:
    if not target or len(set(target)) != len(target):
        yield f"{partition} has no replica, or two on one broker: {list(target)}"
    for broker in sorted(set(target) - set(before)):
        facts = situation.brokers.get(broker)
        if facts is None or not facts.up:
            yield f"{partition} would go to broker {broker}, which is not up"
    spans = _racks(target, situation)
    if scope.keep_racks and spans < min(_racks(before, situation), len(target)):
        yield f"{partition} would span {spans} racks"


def _racks(brokers: tuple[int, ...], situation: Situation) -> int:
    found = {situation.brokers[b].rack for b in brokers if b in situation.brokers}
    return len(found - {None, ""})


def _overfull(proposal: Proposal, situation: Situation, scope: Scope) -> Iterator[str]:
    sizes = dict(zip(situation.partitions, situation.size_bytes.tolist(), strict=True))
    added: Counter[int] = Counter()
    for partition, target in proposal.targets.items():
        for broker in set(target) - set(proposal.before[partition]):
            added[broker] += max(sizes.get(partition, 0), 0)
    for broker, more in sorted(added.items()):
        room = _room(situation.brokers.get(broker), scope.disk_fraction)
        if room is not None and more > room + 1:
            yield f"broker {broker} would receive {more} bytes, but has space for {room:.0f}"


def _room(facts: BrokerFacts | None, fraction: float) -> float | None:
    """Bytes that may be added to the broker's volumes together; None where it is not known."""
    volumes = [each for each in facts.log_dirs if each.error is None] if facts else []
    if not volumes or min(min(v.total_bytes, v.usable_bytes) for v in volumes) < 0:
        return None
    free = [v.usable_bytes - (1 - fraction) * v.total_bytes for v in volumes]
    return sum(max(each, 0.0) for each in free)
