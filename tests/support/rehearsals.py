"""Clusters to be rehearsed: a picture of everything there is, and three brokers that copy fast."""

from __future__ import annotations

from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.rehearsal.picture import Capacity, Picture

MB = 1_000_000
FIRST, SECOND = TopicPartition("a", 0), TopicPartition("b", 3)


def picture() -> Picture:
    """One with everything in it that there is, known and not."""
    brokers = [
        BrokerFacts(1, "r1", log_dirs=(LogDir(1, "/d1", 900, 300), LogDir(1, "/d2"))),
        BrokerFacts(2),
        BrokerFacts(3, "r2", up=False),
        BrokerFacts(4, "r2"),
    ]
    partitions = [
        PartitionSituation(FIRST, (1, 2), 1, (1, 2), 5 * MB, 10.5, 3.0, 2, ("/d2", None)),
        PartitionSituation(SECOND, (2, 4, 1), 2, (2, 1)),
    ]
    return Picture(
        Situation.of(partitions, brokers, [OngoingReassignment(SECOND, (2, 4, 1), (4,), (1,))]),
        Throttles(
            {1: BrokerThrottle(1, ThrottledRate(1_000, None), 7)},
            {
                "a": ThrottledReplicas(ReplicaSet.parse("*")),
                "b": ThrottledReplicas(ReplicaSet.parse("3:2"), ReplicaSet.parse("3:4")),
            },
        ),
        {2: Capacity(1e6, None, 2.5e6)},
        {(SECOND, 4): 77},
        "cluster-id",
        1_700_000_000_123,
    )


FAST = {broker: Capacity(100.0 * MB, 100.0 * MB) for broker in (1, 2, 3)}


def named(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def situation(
    count: int = 3, size_bytes: int | None = 100 * MB, rate: float | None = 0.0
) -> Situation:
    """Partitions on brokers 1 and 2, led by 1; broker 3 has nothing."""
    return Situation.of(
        [
            PartitionSituation(named(n), (1, 2), 1, (1, 2), size_bytes, rate, min_isr=2)
            for n in range(count)
        ],
        [BrokerFacts(1, "a"), BrokerFacts(2, "b"), BrokerFacts(3, "c")],
    )


def to_the_third(count: int = 3) -> dict[TopicPartition, tuple[int, ...]]:
    return {named(n): (1, 3) for n in range(count)}
