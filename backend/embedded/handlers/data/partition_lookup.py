"""What the APIs of the data plane share: finding a partition, and who may be asked about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from kshunt.backend import error_codes
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.data.hosted_partition import HostedPartition
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import (
    PartitionImage,
    RegisteredBroker,
    TopicImage,
)
from kshunt.backend.embedded.metadata.records import PartitionModeCode, ResourceType

NO_EPOCH: Final = -1
"""A client that does not know the leader epoch."""
NO_OFFSET: Final = -1


class DataCode(enum.IntEnum):
    """Kafka's error codes that the data plane answers with, by their protocol names."""

    NONE = error_codes.NONE
    OFFSET_OUT_OF_RANGE = error_codes.OFFSET_OUT_OF_RANGE
    UNKNOWN_TOPIC_OR_PARTITION = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    NOT_LEADER_OR_FOLLOWER = error_codes.NOT_LEADER_OR_FOLLOWER
    REQUEST_TIMED_OUT = error_codes.REQUEST_TIMED_OUT
    INVALID_TOPIC_EXCEPTION = error_codes.INVALID_TOPIC_EXCEPTION
    NOT_ENOUGH_REPLICAS = error_codes.NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    INVALID_REQUIRED_ACKS = error_codes.INVALID_REQUIRED_ACKS
    UNSUPPORTED_VERSION = error_codes.UNSUPPORTED_VERSION
    INVALID_REQUEST = error_codes.INVALID_REQUEST
    POLICY_VIOLATION = error_codes.POLICY_VIOLATION
    INVALID_TXN_STATE = error_codes.INVALID_TXN_STATE
    KAFKA_STORAGE_ERROR = error_codes.KAFKA_STORAGE_ERROR
    FETCH_SESSION_ID_NOT_FOUND = error_codes.FETCH_SESSION_ID_NOT_FOUND
    FENCED_LEADER_EPOCH = error_codes.FENCED_LEADER_EPOCH
    UNKNOWN_LEADER_EPOCH = error_codes.UNKNOWN_LEADER_EPOCH
    UNSUPPORTED_COMPRESSION_TYPE = error_codes.UNSUPPORTED_COMPRESSION_TYPE
    INVALID_RECORD = error_codes.INVALID_RECORD
    UNKNOWN_TOPIC_ID = error_codes.UNKNOWN_TOPIC_ID
    TRANSACTION_ABORTABLE = error_codes.TRANSACTION_ABORTABLE


class FoundPartition(NamedTuple):
    """A partition as the controller and as the data plane have it, at one moment."""

    topic: TopicImage
    number: int
    partition: PartitionImage
    held: HostedPartition


def place_in(world: World, topic: TopicImage, number: int) -> FoundPartition | None:
    """A topic's partition, if there is one."""
    partition = topic.partitions.get(number)
    held = world.core.plane.held((topic.topic_id, number))
    if partition is None or held is None:
        return None
    return FoundPartition(topic, number, partition, held)


def place_again(world: World, place: FoundPartition) -> FoundPartition | None:
    """The same partition as it is by now; None if it is gone, also if its name was used again."""
    topic = world.core.image.topic_by_id(place.topic.topic_id)
    return None if topic is None else place_in(world, topic, place.number)


def topic_of(
    image: ClusterImage, name: str, topic_id: UUID | None
) -> tuple[TopicImage | None, DataCode]:
    """The topic that a request names, by its id if there is one, and the error if it is unknown."""
    if topic_id is None:
        return image.topic(name), DataCode.UNKNOWN_TOPIC_OR_PARTITION
    return image.topic_by_id(topic_id.hex), DataCode.UNKNOWN_TOPIC_ID


def hosting_error(
    image: ClusterImage, place: FoundPartition, broker: int, leader_epoch: int = NO_EPOCH
) -> DataCode:
    """Whether a broker has a replica that works, and the client is right about the leader epoch.

    In the order of Kafka's `Partition.localLogWithEpochOrThrow`.
    """
    if broker not in place.held.replicas:
        return DataCode.NOT_LEADER_OR_FOLLOWER
    state = image.brokers.get(broker)
    if state is None or place.partition.log_dir(broker) in state.offline_dirs:
        return DataCode.KAFKA_STORAGE_ERROR
    if leader_epoch in (NO_EPOCH, place.partition.leader_epoch):
        return DataCode.NONE
    older = leader_epoch < place.partition.leader_epoch
    return DataCode.FENCED_LEADER_EPOCH if older else DataCode.UNKNOWN_LEADER_EPOCH


def leading_error(
    image: ClusterImage, place: FoundPartition, broker: int, leader_epoch: int = NO_EPOCH
) -> DataCode:
    """Whether a broker may answer for a partition to a client that believes in `leader_epoch`.

    A partition whose mode is None is filtered out for clients and on its way out (KIP-694):
    there is no such partition.
    """
    if place.partition.mode is PartitionModeCode.NONE:
        return DataCode.UNKNOWN_TOPIC_OR_PARTITION
    error = hosting_error(image, place, broker, leader_epoch)
    if error or place.partition.leader == broker:
        return error
    return DataCode.NOT_LEADER_OR_FOLLOWER


def topic_config(image: ClusterImage, topic: TopicImage, key: str) -> str:
    """The value of a topic's key that holds.

    Raises:
        KeyError: there is no such key.
    """
    return image.config(ResourceType.TOPIC, topic.name, key).value or ""


def known_brokers(image: ClusterImage, brokers: Iterable[int]) -> list[RegisteredBroker]:
    """Where these brokers are to be reached, for an answer's node endpoints (KIP-951)."""
    return [image.brokers[broker] for broker in sorted(set(brokers)) if broker in image.brokers]
