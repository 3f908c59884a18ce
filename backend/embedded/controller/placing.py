"""Where the replicas of new partitions go, and whether a manual assignment can stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from backend.domain.broker_loads import BrokerLoad, BrokerLoads
from backend.domain.cluster import Broker, TopicPartition
from backend.embedded.controller.answers import KafkaError, Refused
from backend.embedded.controller.config_keys import PLACER_CLASS
from backend.embedded.controller.drafts import DirChooser
from backend.embedded.metadata.image import ClusterImage
from backend.embedded.metadata.records import PartitionCreated
from backend.errors import BadInput, ConfigError
from backend.placement.generate import generate_assignment
from backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
    load_placer,
)
from backend.placement.placing import PlacementRequest, place_with

PLACER_DEADLINE_S = 2.0
"""While a placer decides the whole cluster waits, as Kafka's controller does."""

Placement = Callable[[int, int, Sequence[Broker], Random], Sequence[tuple[int, ...]]]
"""From how many partitions, how many replicas, which brokers and what random source to the
replica lists, the preferred leader first. Raises `BadInput` if it cannot."""


def default_placement(
    partitions: int, replication_factor: int, brokers: Sequence[Broker], random: Random
) -> list[tuple[int, ...]]:
    """Round robin with racks alternating (`backend.placement.generate`).

    Racks count only if every broker has one.

    Raises:
        BadInput: there are fewer brokers than replicas.
    """
    if any(broker.rack is None for broker in brokers):
        brokers = [Broker(broker.id, broker.host, broker.port) for broker in brokers]
    present = {
        TopicPartition("", number): range(replication_factor) for number in range(partitions)
    }
    placed = generate_assignment(present, brokers, random) if brokers else {}
    if len(placed) < partitions:
        raise BadInput("All brokers are currently fenced.")
    return [placed[TopicPartition("", number)] for number in range(partitions)]


def place(
    image: ClusterImage,
    partitions: int,
    replication_factor: int,
    placement: Placement,
    random: Random,
    start_partition: int = 0,
    *,
    topic: str | None = None,
    principal: str | None = None,
) -> list[tuple[int, ...]]:
    """Replica lists for new partitions, on brokers that are up.

    The cluster's placer decides where `replica.placer.class.name` names one (KIP-660), otherwise
    `placement`. A placer that wants to know it is told the topic, what is there of it, who asks,
    and how many replicas each broker holds.

    Raises:
        Refused: INVALID_REPLICATION_FACTOR where the placement cannot; REPLICA_PLACEMENT_FAILED
            with the placer's own words where a named one cannot, or answers what cannot stand.
    """
    name = image.cluster_config(PLACER_CLASS)
    if name:
        request = PlacementRequest(
            *(start_partition, partitions, replication_factor, _usable(image)),
            topic=topic,
            principal=principal,
            loads=_loads(image),
            existing=_existing(image, topic),
        )
        return _placed_by(name, image.static, request)
    brokers = [
        Broker(state.id, state.host, state.port, state.rack)
        for _, state in sorted(image.brokers.items())
        if not state.fenced
    ]
    try:
        if replication_factor > len(brokers):
            raise BadInput(
                f"The target replication factor of {replication_factor} cannot be reached "
                f"because only {len(brokers)} broker(s) are registered and unfenced."
            )
        return list(placement(partitions, replication_factor, brokers, random))
    except BadInput as error:
        message = f"Unable to replicate the partition {replication_factor} time(s): {error}"
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, message) from error


def _usable(image: ClusterImage) -> list[UsableBroker]:
    return [
        UsableBroker(state.id, state.rack, state.fenced)
        for _, state in sorted(image.brokers.items())
    ]


def _loads(image: ClusterImage) -> BrokerLoads:
    """What the controller knows at once: how many replicas each broker holds."""
    return BrokerLoads(
        {
            broker: BrokerLoad(broker, replicas=image.hosted_count(broker))
            for broker in image.brokers
        }
    )


def _existing(image: ClusterImage, topic: str | None) -> list[tuple[int, ...]]:
    found = None if topic is None else image.topic(topic)
    return [] if found is None else [one.target for _, one in sorted(found.partitions.items())]


def _placed_by(
    name: str, configs: Mapping[str, str], request: PlacementRequest
) -> list[tuple[int, ...]]:
    try:
        placer = load_placer(name, configs)
        return place_with(placer, name, request, deadline_s=PLACER_DEADLINE_S)
    except InvalidReplicationFactor as error:
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, str(error)) from error
    except (ConfigError, ReplicaPlacementFailed) as error:
        raise Refused(KafkaError.REPLICA_PLACEMENT_FAILED, str(error)) from error


def check_replicas(
    image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None
) -> tuple[int, ...]:
    """A manual replica list that can stand (Kafka's `validateManualPartitionAssignment`).

    Raises:
        Refused: INVALID_REPLICA_ASSIGNMENT.
    """
    error = KafkaError.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise Refused(error, "The manual partition assignment includes an empty replica list.")
    for broker in replicas:
        if broker not in image.brokers:
            raise Refused(
                error,
                f"The manual partition assignment includes broker {broker}, but no such broker "
                "is registered.",
            )
        if list(replicas).count(broker) > 1:
            raise Refused(
                error,
                f"The manual partition assignment includes the broker {broker} more than once.",
            )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise Refused(
            error,
            "The manual partition assignment includes a partition with "
            f"{len(replicas)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s).",
        )
    return tuple(replicas)


def new_partitions(
    image: ClusterImage,
    topic_id: str,
    replica_lists: Mapping[int, Sequence[int]],
    dirs: DirChooser,
) -> list[PartitionCreated]:
    """The records of new partitions: in sync, and led, by their online replicas.

    Raises:
        Refused: INVALID_REPLICA_ASSIGNMENT if no replica of a partition is online.
    """
    created = []
    for number, replicas in replica_lists.items():
        isr = tuple(broker for broker in replicas if image.is_online(broker))
        if not isr:
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{number} are fenced or in controlled shutdown.",
            )
        log_dirs = tuple(map(dirs.choose, replicas))
        created.append(PartitionCreated(topic_id, number, tuple(replicas), isr, isr[0], log_dirs))
    return created
