"""Clearing the throttles of a plan that is done or cancelled, where no operation of ours owns them.

What Kafka's own tool does when it verifies or cancels, without its side effects; `cleared_by` is
pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    NO_REPLICAS,
    ReplicaSet,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.results import failures
from kshunt.backend.operations.ownership.cells import ListKey, Pairs
from kshunt.backend.operations.ownership.ownership import Ownership


@dataclass(frozen=True, slots=True)
class Clearing:
    """Throttles to take off: what stays of each topic's lists, and the brokers to free."""

    topics: Mapping[str, ThrottledReplicas]
    brokers: tuple[int, ...]
    left_alone: Mapping[int, str]
    """Brokers that the partitions were throttled on and that keep their rates, and the reason."""

    def __bool__(self) -> bool:
        return bool(self.topics) or bool(self.brokers)


def cleared_by(
    partitions: Iterable[TopicPartition], present: Throttles, ownership: Ownership
) -> Clearing:
    """The throttles that were there for these partitions and that no operation here owns.

    Kafka's own tool deletes the rates of every broker when it verifies. Here only the replicas of
    the given partitions leave the lists. Only brokers that those replicas name, and that no list
    names any more, lose their rates.
    """
    numbers: dict[str, set[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, set()).add(partition)
    topics, freed = {}, set()
    for topic, wanted in numbers.items():
        lists = present.replicas.get(topic, NO_REPLICAS)
        left = ThrottledReplicas(
            _reduced(lists.leaders, wanted, ownership.held_pairs((topic, ListKey.LEADERS))),
            _reduced(lists.followers, wanted, ownership.held_pairs((topic, ListKey.FOLLOWERS))),
        )
        if left != lists:
            topics[topic] = left
            freed |= _brokers(lists) - _brokers(left)
    busy = {broker for (broker, _), cell in ownership.rates.items() if cell.live}
    rated = {b for b, throttle in present.rates.items() if throttle.rate != NO_RATE}
    left_alone = {}
    for broker in sorted(freed & rated):
        listing = [t for t, r in present.replicas.items() if broker in _brokers(topics.get(t, r))]
        if broker in busy:
            left_alone[broker] = "a running operation needs it"
        elif listing:
            left_alone[broker] = f"throttled replicas of {listed(listing, 3)} include it"
    brokers = tuple(sorted((freed & rated) - left_alone.keys()))
    return Clearing(topics, brokers, left_alone)


def _reduced(lists: ReplicaSet, partitions: set[int], owned: Pairs) -> ReplicaSet:
    if lists.everything:
        return lists
    ours = {pair for pair in lists.pairs if pair[0] in partitions}
    return ReplicaSet(lists.pairs - ours | (ours & owned))


def _brokers(lists: ThrottledReplicas) -> set[int]:
    return {broker for side in (lists.leaders, lists.followers) for _, broker in side.pairs}


async def clear_unowned(
    admin: ClusterAdmin,
    ownership: Ownership,
    partitions: Iterable[TopicPartition],
    *,
    timeout_s: float,
) -> tuple[Clearing, tuple[str, ...]]:
    """Take off the throttles of `cleared_by`; what was taken off, and what was not, in words."""
    wanted = tuple(partitions)
    state = await admin.cluster.describe(timeout_s=timeout_s)
    present = await admin.throttles.describe(
        sorted(state.brokers), state.assignment.topics, timeout_s=timeout_s
    )
    clearing = await offload(len(wanted), cleared_by, wanted, present, ownership)
    if not clearing:
        return clearing, ()
    topics = await admin.throttles.alter_replicas(
        clearing.topics, validate_only=False, timeout_s=timeout_s, as_found=True
    )
    brokers = await admin.throttles.alter_rates(
        dict.fromkeys(clearing.brokers, NO_RATE),
        log_dir_rates=dict.fromkeys(clearing.brokers),
        validate_only=False,
        timeout_s=timeout_s,
    )
    stays = [
        f"Broker {broker} keeps its rates: {why}." for broker, why in clearing.left_alone.items()
    ]
    return clearing, (*failures(topics), *failures(brokers), *stays)
