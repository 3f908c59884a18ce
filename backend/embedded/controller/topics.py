"""Topics come and go, and gain partitions (Kafka's ReplicationControlManager)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kshunt.backend.embedded.controller.configs import checked
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import DirChooser
from kshunt.backend.embedded.controller.replica_placement import (
    Placement,
    check_replicas,
    new_partitions,
    place,
    striped_placement,
)
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import TopicImage
from kshunt.backend.embedded.metadata.records import (
    ConfigChanged,
    PartitionCreated,
    Record,
    ResourceType,
    ThrottledReplicasRemoval,
    TopicCreated,
    TopicDeleted,
)

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
NAME_MAX = 249
"""Characters of a topic's name."""
DEFAULT = -1
"""A count of which the cluster's default is wanted."""
PARTITIONS_MAX = 10_000
"""Most partitions that one request may create (Kafka's MAX_PARTITIONS_PER_BATCH)."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """One topic of a CreateTopics request."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Replica lists by partition; then both counts stay -1."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic(DecidedItem[str]):
    """What became of a new topic, with what CreateTopicsResponse says about it."""

    topic_id: str = ""
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """One topic of a CreatePartitions request."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None
    """Replica lists of the partitions that are added, or None to have them placed."""


def create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    random: Random,
    *,
    placement: Placement = striped_placement,
    validate_only: bool = False,
) -> Decision[str]:
    """Create topics, each wholly or not at all (CreateTopics); results are `CreatedTopic`.

    INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST,
    REPLICA_PLACEMENT_FAILED (KIP-660).
    """
    records: list[Record] = []
    results: list[DecidedItem[str]] = []
    times = Counter(topic.name for topic in topics)
    dirs = DirChooser(image)
    names = {_collapsed(name): name for name in image.topics}
    for topic in topics:
        try:
            if times[topic.name] > 1:
                raise ItemRefused(KafkaError.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(names, topic.name)
            created, result = _create(image, topic, random, placement, dirs)
            records += created
            results.append(result)
            names[_collapsed(topic.name)] = topic.name
        except ItemRefused as refusal:
            results.append(CreatedTopic(topic.name, refusal.error, refusal.message))
    return Decision.of(records, results, validate_only=validate_only)


def delete_topics(
    image: ClusterImage, names: Sequence[str] = (), ids: Sequence[str] = ()
) -> Decision[str]:
    """Delete topics by name or by id (DeleteTopics); a result's item is what was asked for.

    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID; TOPIC_DELETION_DISABLED for the whole request
    if `delete.topic.enable` is false. If a deletion ends the last move, its throttles go too.
    """
    if image.cluster_config("delete.topic.enable") != "true":
        disabled = KafkaError.TOPIC_DELETION_DISABLED
        return Decision(error=disabled, message="Topic deletion is disabled.")
    found: dict[str, TopicImage] = {}
    results: list[DecidedItem[str]] = []
    asked = [(name, image.topic(name), KafkaError.UNKNOWN_TOPIC_OR_PARTITION) for name in names]
    asked += [(id_, image.topic_by_id(id_), KafkaError.UNKNOWN_TOPIC_ID) for id_ in ids]
    for item, topic, unknown in asked:
        if topic is None:
            results.append(DecidedItem(item, unknown, f"There is no topic {item}."))
            continue
        found[topic.topic_id] = topic
        results.append(DecidedItem(item))
    deleted = {topic.name for topic in found.values()}
    records: list[Record] = [TopicDeleted(topic_id) for topic_id in found]
    if deleted & set(image.replicas_removal):
        left = tuple(name for name in image.replicas_removal if name not in deleted)
        records.append(ThrottledReplicasRemoval(left))
    return Decision.of(with_removal(image, records), results)


def create_partitions(
    image: ClusterImage,
    topics: Mapping[str, NewPartitions],
    random: Random,
    *,
    placement: Placement = striped_placement,
    validate_only: bool = False,
) -> Decision[str]:
    """Add partitions to topics (CreatePartitions, KIP-195).

    UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS for a count that is no increase or while
    partitions of the topic are being deleted (KIP-694), INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR.
    """
    records: list[Record] = []
    results: list[DecidedItem[str]] = []
    dirs = DirChooser(image)
    for name, request in topics.items():
        try:
            records += added_partitions(image, name, request, random, placement, dirs)
            results.append(DecidedItem(name))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(name, refusal))
    return Decision.of(records, results, validate_only=validate_only)


def added_partitions(
    image: ClusterImage,
    name: str,
    request: NewPartitions,
    random: Random,
    placement: Placement,
    dirs: DirChooser,
    replication_factor: int | None = None,
) -> list[PartitionCreated]:
    """The records that add partitions to one topic, by default with its replication factor.

    Raises:
        ItemRefused: as `create_partitions` answers.
    """
    topic = image.topic(name)
    if topic is None:
        message = f"There is no topic {name}."
        raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, message)
    count = len(topic.partitions)
    _check_increase(topic, count, request.total_count)
    wanted = request.total_count - count
    if replication_factor is None:
        replication_factor = len(topic.partitions[min(topic.partitions)].target)
    lists = request.assignments
    if lists is None:
        lists = place(image, wanted, replication_factor, placement, random, count, topic=name)
    elif len(lists) != wanted:
        raise ItemRefused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {wanted} additional partition(s), but {len(lists)} "
            "assignment(s) were specified.",
        )
    placed = {
        count + at: check_replicas(image, replicas, replication_factor)
        for at, replicas in enumerate(lists)
    }
    return new_partitions(image, topic.topic_id, placed, dirs)


def _check_increase(topic: TopicImage, count: int, total_count: int) -> None:
    error = KafkaError.INVALID_PARTITIONS
    if any(partition.deletion for partition in topic.partitions.values()):
        raise ItemRefused(error, f"Partitions of {topic.name} are being deleted (KIP-694).")
    if total_count == count:
        raise ItemRefused(error, f"Topic already has {count} partition(s).")
    if total_count < count:
        raise ItemRefused(
            error,
            f"The topic {topic.name} currently has {count} partition(s); {total_count} would "
            "not be an increase.",
        )
    check_batch(total_count - count)


def check_batch(partitions: int) -> None:
    """Refuse to create more partitions than one request may.

    Raises:
        ItemRefused: with INVALID_PARTITIONS.
    """
    if partitions > PARTITIONS_MAX:
        raise ItemRefused(
            KafkaError.INVALID_PARTITIONS,
            f"{partitions} partitions are more than the {PARTITIONS_MAX} of one request.",
        )


def _collapsed(name: str) -> str:
    """What Kafka's metric names make of a topic name."""
    return name.replace(".", "_")


def _check_name(names: Mapping[str, str], name: str) -> None:
    error = KafkaError.INVALID_TOPIC_EXCEPTION
    other = names.get(_collapsed(name))
    if other == name:
        message = f"Topic '{name}' already exists."
        raise ItemRefused(KafkaError.TOPIC_ALREADY_EXISTS, message)
    if other is not None:
        raise ItemRefused(error, f"Topic '{name}' collides with existing topic: {other}")
    if name in ("", ".", "..") or len(name) > NAME_MAX or not _NAME.fullmatch(name):
        raise ItemRefused(
            error,
            f"Topic name is invalid: '{name}' must have 1 to {NAME_MAX} ASCII alphanumerics, "
            "'.', '_' and '-', and may not be '.' or '..'.",
        )


def _create(
    image: ClusterImage,
    topic: NewTopic,
    random: Random,
    placement: Placement,
    dirs: DirChooser,
) -> tuple[list[Record], CreatedTopic]:
    configs = {key: value for key, value in topic.configs.items() if value is not None}
    for key, value in configs.items():
        checked(ResourceType.TOPIC, key, value)
    lists = _manual(image, topic) if topic.assignments else _placed(image, topic, random, placement)
    topic_id = UUID(int=random.getrandbits(128), version=4).hex
    records: list[Record] = [TopicCreated(topic.name, topic_id)]
    records += _config_records(topic.name, configs)
    records += new_partitions(image, topic_id, lists, dirs)
    factor = len(next(iter(lists.values())))
    return records, CreatedTopic(
        topic.name, topic_id=topic_id, num_partitions=len(lists), replication_factor=factor
    )


def _config_records(topic: str, configs: Mapping[str, str]) -> Iterator[ConfigChanged]:
    return (ConfigChanged(ResourceType.TOPIC, topic, key, configs[key]) for key in configs)


def _manual(image: ClusterImage, topic: NewTopic) -> dict[int, tuple[int, ...]]:
    for what, count in (
        ("numPartitions", topic.num_partitions),
        ("replicationFactor", topic.replication_factor),
    ):
        if count != DEFAULT:
            raise ItemRefused(
                KafkaError.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise ItemRefused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    check_batch(len(topic.assignments))
    factor = len(topic.assignments[0])
    return {
        number: check_replicas(image, topic.assignments[number], factor)
        for number in sorted(topic.assignments)
    }


def _placed(
    image: ClusterImage, topic: NewTopic, random: Random, placement: Placement
) -> dict[int, tuple[int, ...]]:
    factor, partitions = topic.replication_factor, topic.num_partitions
    if factor == 0 or factor < DEFAULT:
        raise ItemRefused(
            KafkaError.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions == 0 or partitions < DEFAULT:
        raise ItemRefused(
            KafkaError.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor == DEFAULT:
        factor = int(image.cluster_config("default.replication.factor"))
    if partitions == DEFAULT:
        partitions = int(image.cluster_config("num.partitions"))
    check_batch(partitions)
    return dict(enumerate(place(image, partitions, factor, placement, random, topic=topic.name)))
