"""Where the replicas of new partitions go, and whether a manual assignment can stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from backend.domain.cluster import Broker, TopicPartition
from backend.embedded.controller.answers import KafkaError, Refused
from backend.embedded.controller.config_keys import PLACER_CLASS
from backend.embedded.controller.drafts import DirChooser
from backend.embedded.metadata.image import ClusterImage
from backend.embedded.metadata.records import PartitionCreated
from backend.errors import BadInput
from backend.placement.generate import generate_assignment
from backend.placement.placer import InvalidReplicationFactor, UsableBroker, load_placer

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
) -> list[tuple[int, ...]]:
    """Replica lists for new partitions, on brokers that are up.

    The cluster's placer decides where `replica.placer.class.name` names one (KIP-660), otherwise
    `placement`.

    Raises:
        Refused: INVALID_REPLICATION_FACTOR where the placement cannot; REPLICA_PLACEMENT_FAILED
            with the placer's own words where a named one cannot, or answers what cannot stand.
    """
    name = image.cluster_config(PLACER_CLASS)
    if name:
        return _placed_by(name, image, start_partition, partitions, replication_factor)
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


def _placed_by(
    name: str, image: ClusterImage, start_partition: int, partitions: int, factor: int
) -> list[tuple[int, ...]]:
    brokers = [
        UsableBroker(state.id, state.rack, state.fenced)
        for _, state in sorted(image.brokers.items())
    ]
    failed = KafkaError.REPLICA_PLACEMENT_FAILED
    try:
        lists = load_placer(name).place(start_partition, partitions, factor, iter(brokers))
        placed = [tuple(replicas) for replicas in lists]
    except InvalidReplicationFactor as error:
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, str(error)) from error
    # A placer is somebody else's code, and may fail in any way.
    except Exception as error:
        raise Refused(failed, f"The placer {name} failed: {error}") from error
    if len(placed) != partitions:
        message = f"The placer {name} placed {len(placed)} of {partitions} partitions."
        raise Refused(failed, message)
    try:
        return [check_replicas(image, replicas, factor) for replicas in placed]
    except Refused as wrong:
        raise Refused(failed, f"The placer {name}: {wrong.message}") from wrong


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
