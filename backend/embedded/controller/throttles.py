"""KIP-179's AlterInterbrokerThrottledRates and AlterInterbrokerThrottledReplicas.

Goals
    Change throttles so that those which are to end with the move still end with it, wherever
    the controller crashes.

Constraints
    - The records are committed in order, and any number of the last may be lost.
    - The removal set must hold a broker (a topic) before its configuration is written, and must
      still hold one whose configuration has not been cleaned.

Algorithm (the seed's, for rates; for replicas with topics in place of brokers)
    1. Check the request.
    2. The removal set becomes the union of itself and what is in the request.
    3. What was in the set and is not in the request loses its throttle.
    4. What is in the request gets its throttle.
    5. The removal set becomes what is in the request.

The seed leaves open what `remove_throttle = false` does to this. Here step 2 is left out and step
5 empties the set: what is in the request stays after the move, and all else was cleaned. For
replicas, the seed's step 2 names the rates' znode once, and its step 4 the rates' keys. Both
requests have the name of the first. All read as slips for "replicas". The seed's
AlterInterbrokerThrottledReplicas message has one broker list, where the Java API next to it has
leaders and followers; the API holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_MIN_BYTES_PER_S,
)
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.throttle_removal import RATE_KEYS, REPLICA_KEYS, unset
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import (
    ConfigChanged,
    Record,
    ResourceType,
    ThrottledRatesRemoval,
    ThrottledReplicasRemoval,
)

Pairs = set[tuple[int, int]]
"""(partition, broker) pairs of a throttled replica list."""


@dataclass(frozen=True, slots=True)
class RateRequest:
    """A broker's throttled rates; 2**63 - 1 is no limit."""

    leader_bytes_per_s: int
    follower_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class ReplicasRequest:
    """A partition's throttled brokers by their part; None is every broker of the cluster."""

    leaders: tuple[int, ...] | None
    followers: tuple[int, ...] | None


def alter_interbroker_throttled_rates(
    image: ClusterImage,
    rates: Mapping[int, RateRequest],
    *,
    remove_throttle: bool = True,
    validate_only: bool = False,
) -> Decision[int]:
    """Replace the throttled rates of these brokers; each for itself.

    BROKER_NOT_AVAILABLE for one that is not registered, INVALID_REQUEST for a rate under 1 KB/s.
    """
    results = tuple(_checked_rate(image, broker, rate) for broker, rate in rates.items())
    wanted = [result.item for result in results if result.ok]
    records: list[Record] = []
    if wanted:
        refused = frozenset(rates) - set(wanted)
        asked = {broker: rates[broker] for broker in wanted}
        records = list(_rate_records(image, asked, refused, remove_throttle))
    return Decision.of(records, results, validate_only=validate_only)


def alter_interbroker_throttled_replicas(
    image: ClusterImage,
    replicas: Mapping[TopicPartition, ReplicasRequest],
    *,
    remove_throttle: bool = True,
    validate_only: bool = False,
) -> Decision[TopicPartition]:
    """Replace the throttled replicas of the topics of these partitions; each for itself.

    UNKNOWN_TOPIC_OR_PARTITION, BROKER_NOT_AVAILABLE.
    """
    results = tuple(_checked_replicas(image, item, one) for item, one in replicas.items())
    lists: dict[str, tuple[Pairs, Pairs]] = {}
    for result in results:
        if result.ok:
            leaders, followers = lists.setdefault(result.item.topic, (set(), set()))
            request, number = replicas[result.item], result.item.partition
            leaders |= _pairs(image, number, request.leaders)
            followers |= _pairs(image, number, request.followers)
    refused = frozenset(item.topic for item in replicas) - lists.keys()
    records = list(_replica_records(image, lists, refused, remove_throttle)) if lists else []
    return Decision.of(records, results, validate_only=validate_only)


def set_keys(
    image: ClusterImage, kind: ResourceType, resource: str, values: Mapping[str, str]
) -> Iterator[ConfigChanged]:
    """Give keys of a resource these values, where they have others; an empty one goes."""
    present = image.dynamic_configs(kind, resource)
    for key, value in values.items():
        if (value or None) != present.get(key):
            yield ConfigChanged(kind, resource, key, value or None)


def listed(pairs: Pairs) -> str:
    """Pairs as Kafka writes them: `0:101,0:102`."""
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(pairs))


def _rate_records(
    image: ClusterImage,
    rates: Mapping[int, RateRequest],
    refused: AbstractSet[int],
    remove_throttle: bool,
) -> Iterator[Record]:
    """Steps 2 to 5; what is refused stays as it was, with its place in the removal set."""
    asked = tuple(sorted(rates))
    staying = refused & set(image.rates_removal)
    held = tuple(broker for broker in image.rates_removal if broker not in staying)
    if remove_throttle:
        yield ThrottledRatesRemoval(tuple(sorted({*staying, *held, *asked})))
    for broker in held:
        if broker not in rates:
            yield from unset(image, ResourceType.BROKER, str(broker), RATE_KEYS)
    for broker in asked:
        rate = rates[broker]
        values = {
            LEADER_RATE: str(rate.leader_bytes_per_s),
            FOLLOWER_RATE: str(rate.follower_bytes_per_s),
        }
        yield from set_keys(image, ResourceType.BROKER, str(broker), values)
    yield ThrottledRatesRemoval(tuple(sorted({*staying, *(asked if remove_throttle else ())})))


def _replica_records(
    image: ClusterImage,
    lists: Mapping[str, tuple[Pairs, Pairs]],
    refused: AbstractSet[str],
    remove_throttle: bool,
) -> Iterator[Record]:
    """Steps 2 to 5; what is refused stays as it was, with its place in the removal set."""
    asked = tuple(sorted(lists))
    staying = refused & set(image.replicas_removal)
    held = tuple(topic for topic in image.replicas_removal if topic not in staying)
    if remove_throttle:
        yield ThrottledReplicasRemoval(tuple(sorted({*staying, *held, *asked})))
    for topic in held:
        if topic not in lists:
            yield from unset(image, ResourceType.TOPIC, topic, REPLICA_KEYS)
    for topic in asked:
        leaders, followers = lists[topic]
        values = {LEADER_REPLICAS: listed(leaders), FOLLOWER_REPLICAS: listed(followers)}
        yield from set_keys(image, ResourceType.TOPIC, topic, values)
    yield ThrottledReplicasRemoval(tuple(sorted({*staying, *(asked if remove_throttle else ())})))


def check_rate(rate_bytes_per_s: int) -> None:
    """Refuse a rate under which a move would never end.

    Raises:
        ItemRefused: INVALID_REQUEST.
    """
    if rate_bytes_per_s < RATE_MIN_BYTES_PER_S:
        message = f"A throttle of {rate_bytes_per_s} B/s is under {RATE_MIN_BYTES_PER_S} B/s."
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)


def _checked_rate(image: ClusterImage, broker: int, rate: RateRequest) -> DecidedItem[int]:
    try:
        _check_brokers(image, (broker,))
        check_rate(rate.leader_bytes_per_s)
        check_rate(rate.follower_bytes_per_s)
    except ItemRefused as refusal:
        return DecidedItem.refused(broker, refusal)
    return DecidedItem(broker)


def _checked_replicas(
    image: ClusterImage, item: TopicPartition, request: ReplicasRequest
) -> DecidedItem[TopicPartition]:
    try:
        if image.partition(*item) is None:
            message = f"There is no partition {item}."
            raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, message)
        _check_brokers(image, (*(request.leaders or ()), *(request.followers or ())))
    except ItemRefused as refusal:
        return DecidedItem.refused(item, refusal)
    return DecidedItem(item)


def _check_brokers(image: ClusterImage, brokers: tuple[int, ...]) -> None:
    unknown = [broker for broker in brokers if broker not in image.brokers]
    if unknown:
        message = f"Broker {unknown[0]} is not registered."
        raise ItemRefused(KafkaError.BROKER_NOT_AVAILABLE, message)


def _pairs(image: ClusterImage, number: int, brokers: tuple[int, ...] | None) -> Pairs:
    return {(number, broker) for broker in (image.brokers if brokers is None else brokers)}
