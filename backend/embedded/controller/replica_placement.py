"""Where the replicas of new partitions go, and whether a manual assignment can stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.embedded.controller.decision import ItemRefused, KafkaError
from kshunt.backend.embedded.controller.partition_change_builder import DirChooser
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import PartitionCreated
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
    make_placer,
)
from kshunt.backend.placement.placer_calls import PlacementRequest, close_placer, place_with
from kshunt.backend.placement.striped import StripedReplicaPlacer

PLACER_DEADLINE_S = 2.0
"""While a placer decides the whole cluster waits, as Kafka's controller does."""

Placement = Callable[[PlacementRequest, Random], Sequence[tuple[int, ...]]]
"""The replica list of each partition that is asked for, the preferred leader first.

Raises `InvalidReplicationFactor` or `ReplicaPlacementFailed` if there is none."""


def striped_placement(request: PlacementRequest, random: Random) -> list[tuple[int, ...]]:
    """KIP-660's default, `StripedReplicaPlacer`.

    Raises:
        InvalidReplicationFactor: there are not enough brokers, or all of them are fenced.
        ReplicaPlacementFailed: only some of the brokers have a rack.
    """
    placer = StripedReplicaPlacer(random)
    placer.follow(request.existing)
    partitions = request.start_partition, request.num_partitions
    lists = placer.place(*partitions, request.num_replicas, iter(request.brokers))
    return [tuple(replicas) for replicas in lists]


def with_principal(principal: str, placement: Placement) -> Placement:
    """The same placement, which is told who asks, as Kafka writes it: `User:alice`."""

    def placed(request: PlacementRequest, random: Random) -> Sequence[tuple[int, ...]]:
        return placement(replace(request, principal=principal), random)

    return placed


class NamedPlacer:
    """The placer that a cluster names, from its start to its end (KIP-660)."""

    def __init__(self, name: str, configs: Mapping[str, str]) -> None:
        """Make and configure it.

        Raises:
            ConfigError: there is no such placer, or it refuses its configuration.
        """
        self._name = name
        self._placer = make_placer(name, configs)
        self._open = True

    def __call__(self, request: PlacementRequest, random: Random) -> list[tuple[int, ...]]:
        """Ask it; see `Placement`."""
        return place_with(self._placer, self._name, request, deadline_s=PLACER_DEADLINE_S)

    def close(self) -> None:
        """Close it, once. A placer that fails or hangs at that is ignored."""
        if self._open:
            self._open = False
            close_placer(self._name, self._placer, PLACER_DEADLINE_S)


def place(
    image: ClusterImage,
    partitions: int,
    replication_factor: int,
    placement: Placement,
    random: Random,
    start_partition: int = 0,
    *,
    topic: str | None = None,
    running_only: bool = False,
) -> list[tuple[int, ...]]:
    """Replica lists for new partitions.

    A placer that wants to know it is told the topic, what is there of it, and how many replicas
    each broker holds. With `running_only` it does not see fenced brokers.

    Raises:
        ItemRefused: INVALID_REPLICATION_FACTOR where there are not enough brokers;
            REPLICA_PLACEMENT_FAILED with the placer's own words where it cannot place the
            partitions, or answers what cannot stand.
    """
    request = PlacementRequest(
        *(start_partition, partitions, replication_factor, _usable(image, running_only)),
        topic=topic,
        loads=_loads(image),
        existing=_existing(image, topic),
    )
    try:
        return list(placement(request, random))
    except InvalidReplicationFactor as error:
        message = f"Unable to replicate the partition {replication_factor} time(s): {error}"
        raise ItemRefused(KafkaError.INVALID_REPLICATION_FACTOR, message) from error
    except ReplicaPlacementFailed as error:
        raise ItemRefused(KafkaError.REPLICA_PLACEMENT_FAILED, str(error)) from error


def _usable(image: ClusterImage, running_only: bool) -> list[UsableBroker]:
    return [
        UsableBroker(state.id, state.rack, state.fenced)
        for _, state in sorted(image.brokers.items())
        if not (running_only and state.fenced)
    ]


def _loads(image: ClusterImage) -> BrokerLoads:
    """What the controller knows without asking: how many replicas each broker holds."""
    return BrokerLoads(
        {
            broker: BrokerLoad(broker, replicas=image.hosted_count(broker))
            for broker in image.brokers
        }
    )


def _existing(image: ClusterImage, topic: str | None) -> list[tuple[int, ...]]:
    found = None if topic is None else image.topic(topic)
    return [] if found is None else [one.target for _, one in sorted(found.partitions.items())]


def check_replicas(
    image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None
) -> tuple[int, ...]:
    """A manual replica list that can stand (Kafka's `validateManualPartitionAssignment`).

    Raises:
        ItemRefused: INVALID_REPLICA_ASSIGNMENT.
    """
    error = KafkaError.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise ItemRefused(error, "The manual partition assignment includes an empty replica list.")
    for broker in replicas:
        if broker not in image.brokers:
            raise ItemRefused(
                error,
                f"The manual partition assignment includes broker {broker}, but no such broker "
                "is registered.",
            )
        if list(replicas).count(broker) > 1:
            raise ItemRefused(
                error,
                f"The manual partition assignment includes the broker {broker} more than once.",
            )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise ItemRefused(
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
        ItemRefused: INVALID_REPLICA_ASSIGNMENT if no replica of a partition is online.
    """
    created = []
    for number, replicas in replica_lists.items():
        isr = tuple(broker for broker in replicas if image.is_online(broker))
        if not isr:
            raise ItemRefused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{number} are fenced or in controlled shutdown.",
            )
        log_dirs = tuple(map(dirs.choose, replicas))
        created.append(PartitionCreated(topic_id, number, tuple(replicas), isr, isr[0], log_dirs))
    return created
