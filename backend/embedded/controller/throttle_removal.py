"""When throttles go by themselves (KIP-179: "Throttle removal", on completion, on failover).

Goals
    1. A throttle that was asked to go with its move never outlives it, whatever crashes.
    2. A throttle of a move that still runs is left alone.

Constraints
    - The records of a decision are committed in order, and any number of the last may be lost.
    - The seed writes "/admin/remove_throttled_replicas" once and the other name everywhere else;
      both mean `ThrottledReplicasRemoval`. Its "throttled.rates" properties are Kafka's
      "throttled.rate".

Algorithm
    For the topics of the removal set, take both lists off each topic's configuration; then clear
    the set. Likewise the rates of the brokers. The set is cleared last: a run that is cut off is
    done again by the next controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionKey
from kshunt.backend.embedded.metadata.records import (
    ConfigChanged,
    ControllerElected,
    PartitionChanged,
    PartitionRemoved,
    Record,
    ResourceType,
    ThrottledRatesRemoval,
    ThrottledReplicasRemoval,
    TopicDeleted,
)

REPLICA_KEYS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE)


def fail_over(image: ClusterImage, controller: int) -> Decision[int]:
    """Another controller takes over (KIP-179, "On Controller Failover").

    If a reassignment is in progress, the throttles stay until it completes; otherwise they go.
    """
    elected = ControllerElected(controller, image.controller_epoch + 1)
    removal = () if image.is_moving else removal_records(image)
    return Decision.of([elected, *removal])


def removal_records(
    image: ClusterImage,
    topics: Iterable[str] | None = None,
    brokers: Iterable[int] | None = None,
    dropped: Iterable[str] = (),
) -> Iterator[Record]:
    """The throttle removal of the given sets, by default of what the image holds."""
    held_topics = tuple(image.replicas_removal if topics is None else topics)
    held_brokers = tuple(image.rates_removal if brokers is None else brokers)
    gone = frozenset(dropped)
    for topic in held_topics:
        if topic not in gone:
            yield from unset(image, ResourceType.TOPIC, topic, REPLICA_KEYS)
    if held_topics:
        yield ThrottledReplicasRemoval(())
    for broker in held_brokers:
        yield from unset(image, ResourceType.BROKER, str(broker), RATE_KEYS)
    if held_brokers:
        yield ThrottledRatesRemoval(())


def unset(
    image: ClusterImage, kind: ResourceType, resource: str, keys: Iterable[str]
) -> Iterator[ConfigChanged]:
    """Take keys off a resource, where they are set."""
    present = image.dynamic_configs(kind, resource)
    return (ConfigChanged(kind, resource, key, None) for key in keys if key in present)


def with_removal(image: ClusterImage, records: Iterable[Record]) -> list[Record]:
    """The records, and if they end the last move, the throttle removal after them.

    KIP-179, "On reassignment completion": first the move is over, then its throttles go. The
    records may not themselves change throttles; `throttled_move` does that.
    """
    found = list(records)
    if ends_all_moves(image, found):
        dropped = _dropped_names(image, found)
        found += removal_records(image, dropped=dropped)
    return found


def ends_all_moves(image: ClusterImage, records: Iterable[Record]) -> bool:
    """True if something moves, before or by these records, and nothing does after them."""
    moving: dict[PartitionKey, bool] = {
        (topic.topic_id, number): True for topic, number, _ in image.moving()
    }
    for record in records:
        if isinstance(record, PartitionChanged):
            _follow(image, moving, record)
        elif isinstance(record, PartitionRemoved):
            moving.pop((record.topic_id, record.partition), None)
        elif isinstance(record, TopicDeleted):
            moving.update({key: False for key in moving if key[0] == record.topic_id})
    was_moving = image.is_moving or bool(moving)
    return was_moving and not any(moving.values())


def _follow(
    image: ClusterImage, moving: dict[PartitionKey, bool], record: PartitionChanged
) -> None:
    key = (record.topic_id, record.partition)
    if record.replicas is None and record.adding is None and record.removing is None:
        return
    topic = image.topic_by_id(record.topic_id)
    old = topic.partitions.get(record.partition) if topic else None
    adding = record.adding if record.adding is not None else (old.adding if old else ())
    removing = record.removing if record.removing is not None else (old.removing if old else ())
    moving[key] = bool(adding or removing)


def _dropped_names(image: ClusterImage, records: Iterable[Record]) -> set[str]:
    ids = {record.topic_id for record in records if isinstance(record, TopicDeleted)}
    found: Mapping[str, str] = {
        topic_id: topic.name for topic_id in ids if (topic := image.topic_by_id(topic_id))
    }
    return set(found.values())
