"""Small clusters as the engine's decisions see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.metadata import (
    LogDir,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.operations.moves.cluster_view import ClusterView, effective_min_isr


def tp(name: str) -> TopicPartition:
    """`a-0` as a partition."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def at(
    name: str, replicas: Iterable[int], isr: Iterable[int] | None = None, leader: int | None = None
) -> PartitionState:
    """A partition; in sync throughout and led by its first replica in sync, unless said."""
    where = tuple(replicas)
    in_sync = where if isr is None else tuple(isr)
    led_by = leader if leader is not None else next(iter(in_sync), -1)
    return PartitionState(tp(name), led_by, where, in_sync)


def moving(name: str, current: Iterable[int], target: Iterable[int]) -> OngoingReassignment:
    """A move under way."""
    old, new = tuple(current), tuple(target)
    removing = tuple(broker for broker in old if broker not in new)
    adding = tuple(broker for broker in new if broker not in old)
    return OngoingReassignment(tp(name), (*new, *removing), adding, removing)


def view_with(
    *states: PartitionState,
    ongoing: Iterable[OngoingReassignment] = (),
    live: Iterable[int] = range(1, 8),
    min_isr: Mapping[str, int] | int = 1,
    sizes: Mapping[str, int] | None = None,
    throttles: Throttles | None = None,
    usable: Mapping[int, int] | None = None,
) -> ClusterView:
    """A view of these partitions."""
    partitions = {state.partition: state for state in states}
    topics = {partition.topic for partition in partitions}
    needed = dict.fromkeys(topics, min_isr) if isinstance(min_isr, int) else min_isr
    low = {
        p
        for p, state in partitions.items()
        if len(state.isr) < effective_min_isr(needed.get(p.topic, 0), len(state.replicas))
    }
    return ClusterView(
        cluster_id="here",
        live=frozenset(live),
        partitions=partitions,
        ongoing={move.partition: move for move in ongoing},
        min_isr=needed,
        size_bytes={tp(name): size for name, size in (sizes or {}).items()},
        under_min_isr=frozenset(low),
        throttles=throttles or Throttles({}, {}),
        log_dirs=tuple(LogDir(b, "/data", 10**13, free) for b, free in (usable or {}).items()),
    )


def rated(rates: Mapping[int, tuple[int | None, int | None]]) -> dict[int, BrokerThrottle]:
    """Rates of brokers, (as leader, as follower)."""
    return {b: BrokerThrottle(b, ThrottledRate(*both)) for b, both in rates.items()}


def followers(**topics: str) -> dict[str, ThrottledReplicas]:
    """Follower lists by topic, in Kafka's notation."""
    return {
        topic: ThrottledReplicas(ReplicaSet(), ReplicaSet.parse(text))
        for topic, text in topics.items()
    }


def columns(*states: PartitionState) -> Assignment:
    """These partitions as a description of the cluster has them."""
    topics = tuple(sorted({state.partition.topic for state in states}))
    rows = [
        (topics.index(state.partition.topic), state.partition.partition, broker, position, state)
        for state in sorted(states, key=lambda state: state.partition)
        for position, broker in enumerate(state.replicas)
    ]
    return Assignment(
        topics,
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int32),
        np.array([row[2] for row in rows], np.int32),
        np.array([row[3] for row in rows], np.int16),
        np.array([row[4].leader for row in rows], np.int32),
        np.array([row[2] in row[4].isr for row in rows], np.bool_),
        np.zeros(len(rows), np.bool_),
    )
