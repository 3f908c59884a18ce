"""What is wrong with throttles that an operator asks for, as KIP-179's wire calls answer it.

Goals
    A mistake is refused item by item, with the same code on every cluster, also where a request
    only validates. Kafka itself takes any rate, and any pair of numbers for a replica.
Constraints
    What was read from a cluster must go back to it whatever it names: a partition may be gone
    since. Such a write is not checked (`as_found`).
Algorithm
    Rates: INVALID_REQUEST for one under 1 KB/s, or over an INT64. `UNTHROTTLED` is no limit.
    Throttled replicas, partition by partition: UNKNOWN_TOPIC_OR_PARTITION for one that does not
    exist, BROKER_NOT_AVAILABLE for a broker that does not exist. A broker need not host the
    partition: it may be about to. What is refused is left out, and the rest is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    RATE_MIN_BYTES_PER_S,
    UNTHROTTLED,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.error_codes import (
    BROKER_NOT_AVAILABLE,
    INVALID_REQUEST,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)


def check_throttle(*rates_bytes_per_s: int | None) -> ItemResult:
    """The first mistake in these rates, as an item's result; None is no rate, and no mistake."""
    for rate in rates_bytes_per_s:
        if rate is not None and rate < RATE_MIN_BYTES_PER_S:
            why = f"A throttle of {rate} B/s is less than {RATE_MIN_BYTES_PER_S} B/s."
            return item_result(INVALID_REQUEST, why)
        if rate is not None and rate > UNTHROTTLED:
            return item_result(
                INVALID_REQUEST, f"A throttle of {rate} B/s is more than an INT64 can hold."
            )
    return OK


def refused_rates(
    rates: Mapping[int, ThrottledRate], log_dir_rates: Mapping[int, int | None]
) -> dict[int, ItemResult]:
    """The brokers whose rates are refused, and why."""
    asked = {
        broker: (
            *((rate.leader_bytes_per_s, rate.follower_bytes_per_s) if rate else ()),
            log_dir_rates.get(broker),
        )
        for broker in (*rates, *log_dir_rates)
        for rate in (rates.get(broker),)
    }
    checked = {broker: check_throttle(*of_broker) for broker, of_broker in asked.items()}
    return {broker: result for broker, result in checked.items() if not result.ok}


async def refused_replicas(
    cluster: DescribedCluster, replicas: Mapping[str, ThrottledReplicas], timeout_s: float
) -> dict[TopicPartition, ItemResult]:
    """The partitions whose throttled replicas are refused, and why.

    Raises:
        ClusterUnreachable: no broker answered in time.
    """
    named = {topic: lists for topic, lists in replicas.items() if _pairs(lists)}
    if not named:
        return {}
    state = await cluster.describe(sorted(named), timeout_s=timeout_s)
    known = _known(state)
    if any(broker not in known for lists in named.values() for _, broker in _pairs(lists)):
        # A broker that is down is known by what it hosts, of whatever topic.
        known |= _known(await cluster.describe(timeout_s=timeout_s))
    # Off the event loop: there may be very many.
    return await asyncio.to_thread(_refused, named, state, known)


def _refused(
    named: Mapping[str, ThrottledReplicas], state: ClusterState, known: Collection[int]
) -> dict[TopicPartition, ItemResult]:
    numbers = _numbers(state.assignment)
    found = {
        TopicPartition(topic, number): _checked(
            topic, number, brokers, numbers.get(topic, ()), known, state.topic_errors
        )
        for topic, lists in named.items()
        for number, brokers in _by_number(_pairs(lists)).items()
    }
    return {partition: result for partition, result in found.items() if not result.ok}


def without(
    replicas: Mapping[str, ThrottledReplicas], refused: Collection[TopicPartition]
) -> dict[str, ThrottledReplicas]:
    """The topics of which something is left to write, without what is refused."""
    numbers: dict[str, set[int]] = {}
    for topic, number in refused:
        numbers.setdefault(topic, set()).add(number)
    left: dict[str, ThrottledReplicas] = {}
    for topic, lists in replicas.items():
        gone = numbers.get(topic, set())
        fit = ThrottledReplicas(_left(lists.leaders, gone), _left(lists.followers, gone))
        if fit or not gone:
            left[topic] = fit
    return left


def by_topic(
    topics: Iterable[str],
    written: Mapping[str, ItemResult],
    refused: Mapping[TopicPartition, ItemResult],
) -> dict[str, ItemResult]:
    """What became of each topic: the first error of its partitions, or of writing it."""
    first: dict[str, ItemResult] = {}
    for partition in sorted(refused):
        first.setdefault(partition.topic, refused[partition])
    return {topic: first[topic] if topic in first else written[topic] for topic in topics}


def _pairs(lists: ThrottledReplicas) -> frozenset[tuple[int, int]]:
    return lists.leaders.pairs | lists.followers.pairs


def _left(side: ReplicaSet, gone: Collection[int]) -> ReplicaSet:
    pairs = frozenset(pair for pair in side.pairs if pair[0] not in gone)
    return ReplicaSet(pairs, side.everything)


def _by_number(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, broker in sorted(pairs):
        found.setdefault(number, []).append(broker)
    return found


def _known(state: ClusterState) -> set[int]:
    return {*state.brokers, *state.assignment.broker.tolist()}


def _numbers(assignment: Assignment) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    rows = zip(assignment.topic_index.tolist(), assignment.partition.tolist(), strict=True)
    for index, number in set(rows):
        found.setdefault(assignment.topics[index], set()).add(number)
    return found


def _checked(
    topic: str,
    number: int,
    brokers: Iterable[int],
    numbers: Collection[int],
    known: Collection[int],
    errors: Mapping[str, str],
) -> ItemResult:
    if errors.get(topic) == "TOPIC_AUTHORIZATION_FAILED":
        return item_result(
            TOPIC_AUTHORIZATION_FAILED, f"kshunt is not authorized to see topic {topic}."
        )
    if number not in numbers:
        partition = TopicPartition(topic, number)
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition}.")
    for broker in brokers:
        if broker not in known:
            return item_result(BROKER_NOT_AVAILABLE, f"Broker {broker} is not registered.")
    return OK
