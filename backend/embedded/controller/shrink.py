"""A topic loses partitions (KIP-694).

Goals
    The last partitions of a topic go, after a time in which consumers can still read them.

Constraints
    - A partition is ReadWrite, ReadOnly or None (`PartitionModeCode`). Clients that write must
      learn of it before the data goes. Clients that read may continue until then.
    - A broker that cannot delete its replica is asked again.
    - Clients take a topic's partitions to be numbered without a gap. So partitions go from the
      last one down: none goes while one above it can still be read, and none leaves the metadata
      before those above it. All of it holds too if only the first records of a decision were
      written.

Algorithm (the seed's)
    1. DeletePartitions saves when the partitions are to go, and makes them ReadOnly.
    2. A task that looks every `delete.topic.partition.interval.delay.ms` makes those whose delay
       is over None; each goes through OfflinePartition to NonExistentPartition, its replicas
       through OfflineReplica to ReplicaDeletionStarted; the brokers delete the data. One that is
       being moved waits for the end of its move.
    3. A replica that its broker deleted is ReplicaDeletionSuccessful. When all are, the partition
       leaves the metadata, unless one above it is there. A replica that its broker could not
       delete is ReplicaDeletionIneligible until the task looks again.
    With a delay of 0 steps 1 and 2 are one.

Where the seed contradicts itself: the request has a delay in milliseconds, as on the newer side of
the diff. The older side had a flag for a deletion without delay. `partitions` is the count that
remains (the Java API's `totalCount`). The workflow that goes through ZooKeeper is the older
revision. The seed names no errors, and no way back; a count that keeps ReadOnly partitions is taken
to cancel theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kshunt.backend.domain.cluster.config_names import SHRINK_ENABLE
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.config_keys import SHRINK_INTERVAL_MS
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import (
    DeletingPartition,
    PartitionImage,
    ReplicaDeletion,
    TopicImage,
)
from kshunt.backend.embedded.metadata.records import (
    NO_LEADER,
    DeletionState,
    PartitionChanged,
    PartitionModeChanged,
    PartitionModeCode,
    PartitionRemoved,
    PartitionsDeletionCancelled,
    PartitionsDeletionScheduled,
    PartitionStateChanged,
    Record,
    ReplicaState,
    ReplicaStateChanged,
)


def delete_partitions(
    image: ClusterImage,
    total_counts: Mapping[str, int],
    now_ms: int,
    *,
    delay_ms: int = 0,
    validate_only: bool = False,
) -> Decision[TopicPartition]:
    """Let topics keep these numbers of partitions, the first ones; a result for each that goes.

    `status_code` of a result is the partition's mode after the request. A topic that is refused
    has one result, for partition -1.

    For the whole request: TOPIC_DELETION_DISABLED unless `delete.topic.partition.enable`,
    INVALID_REQUEST for a negative delay. UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS for a
    count under 1 or one that takes nothing away, REASSIGNMENT_IN_PROGRESS.
    """
    if image.cluster_config(SHRINK_ENABLE) != "true":
        message = f"Partition deletion is disabled ({SHRINK_ENABLE})."
        return Decision(error=KafkaError.TOPIC_DELETION_DISABLED, message=message)
    if delay_ms < 0:
        return Decision(error=KafkaError.INVALID_REQUEST, message="The delay is negative.")
    records: list[Record] = []
    results: list[DecidedItem[TopicPartition]] = []
    for name, total_count in total_counts.items():
        try:
            topic, goes, stays = _chosen(image, name, total_count)
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(TopicPartition(name, -1), refusal))
            continue
        records += _cancelled(topic, stays)
        records += _scheduled(image, topic, goes, delay_ms, now_ms)
        mode = PartitionModeCode.READ_ONLY if delay_ms else PartitionModeCode.NONE
        results += _answers(name, goes, mode)
        results += _answers(name, stays, PartitionModeCode.READ_WRITE)
    return Decision.of(records, results, validate_only=validate_only)


def finish_replica_deletion(
    image: ClusterImage, item: TopicPartition, broker: int, now_ms: int, *, deleted: bool
) -> Decision[TopicPartition]:
    """A broker answers to the deletion of its replica (the seed's stopReplica response).

    UNKNOWN_TOPIC_OR_PARTITION if no such deletion is going on; a broker may answer twice.
    """
    topic = image.topic(item.topic)
    partition = image.partition(*item)
    deletion = partition.deletion if partition else None
    started = replica_deletion(deletion, broker)
    if topic is None or deletion is None or started is None:
        message = f"Broker {broker} is not deleting a replica of {item}."
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return Decision(results=(DecidedItem(item, unknown, message),))
    state = ReplicaState.DELETION_SUCCESSFUL if deleted else ReplicaState.DELETION_INELIGIBLE
    change = ReplicaStateChanged(topic.topic_id, item.partition, broker, state, now_ms)
    records: list[Record] = [] if started.state is state else [change]
    others = (one for one in deletion.replicas if one.broker != broker)
    if deleted and all(one.state is ReplicaState.DELETION_SUCCESSFUL for one in others):
        records += _leaving(topic, item.partition)
    return Decision.of(with_removal(image, records), [DecidedItem(item)])


def due_deletions(image: ClusterImage, now_ms: int) -> Iterator[Record]:
    """What the seed's task does when it looks: end delays, and ask again for what failed."""
    interval_ms = int(image.cluster_config(SHRINK_INTERVAL_MS))
    topics = {topic.topic_id: topic for topic, _, _ in image.deleting()}
    for topic in topics.values():
        yield from _leaving(topic)
        yield from _due(image, topic, interval_ms, now_ms)


def _due(image: ClusterImage, topic: TopicImage, interval_ms: int, now_ms: int) -> Iterator[Record]:
    """What is due in one topic, from its last partition down."""
    all_went = True
    for number, partition in sorted(topic.partitions.items(), reverse=True):
        deletion = partition.deletion
        if deletion is None:
            return
        if partition.mode is PartitionModeCode.NONE:
            yield from _again(image, topic, number, deletion, now_ms - interval_ms, now_ms)
            continue
        if partition.mode is PartitionModeCode.READ_WRITE:
            yield PartitionModeChanged(topic.topic_id, number, PartitionModeCode.READ_ONLY)
            goes = False
        else:
            goes = not partition.reassigning and now_ms >= looked_at_ms(deletion, interval_ms)
        all_went = all_went and goes
        if all_went:
            yield from _offline(image, topic, number, partition, now_ms)


def _leaving(topic: TopicImage, finished: int | None = None) -> Iterator[Record]:
    """The last partitions leave, as far as their data is gone; that of `finished` is as well."""
    for number in sorted(topic.partitions, reverse=True):
        if number != finished and not _is_deleted(topic.partitions[number]):
            return
        yield PartitionRemoved(topic.topic_id, number)


def _is_deleted(partition: PartitionImage) -> bool:
    replicas = partition.deletion.replicas if partition.deletion else ()
    done = {one.broker for one in replicas if one.state is ReplicaState.DELETION_SUCCESSFUL}
    return done >= set(partition.replicas)


def looked_at_ms(deletion: DeletingPartition, interval_ms: int) -> int:
    """When the task, which looks once an interval, finds the delay to be over."""
    rounds = -(-deletion.delay_ms // interval_ms)
    return deletion.created_ms + rounds * interval_ms


def _chosen(
    image: ClusterImage, name: str, total_count: int
) -> tuple[TopicImage, list[int], list[int]]:
    """The topic, its partitions that go, and those whose deletion is cancelled."""
    topic = image.topic(name)
    if topic is None:
        raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
    if total_count < 1:
        raise ItemRefused(KafkaError.INVALID_PARTITIONS, "A topic keeps at least one partition.")
    open_to_change = {
        number: partition
        for number, partition in sorted(topic.partitions.items())
        if partition.mode is not PartitionModeCode.NONE
    }
    goes = [number for number in open_to_change if number >= total_count]
    stays = [n for n, p in open_to_change.items() if n < total_count and p.deletion]
    if total_count > len(open_to_change) or not (goes or stays):
        message = (
            f"The topic {name} currently has {len(open_to_change)} partition(s); {total_count} "
            "would not be a decrease."
        )
        raise ItemRefused(KafkaError.INVALID_PARTITIONS, message)
    moving = [number for number in goes if open_to_change[number].reassigning]
    if moving:
        message = f"The partition {name}-{moving[0]} is being reassigned."
        raise ItemRefused(KafkaError.REASSIGNMENT_IN_PROGRESS, message)
    return topic, goes, stays


def _cancelled(topic: TopicImage, stays: list[int]) -> Iterator[Record]:
    if stays:
        yield PartitionsDeletionCancelled(topic.topic_id, tuple(stays))


def _scheduled(
    image: ClusterImage, topic: TopicImage, goes: list[int], delay_ms: int, now_ms: int
) -> Iterator[Record]:
    if goes:
        numbers = tuple(goes)
        yield PartitionsDeletionScheduled(topic.topic_id, numbers, delay_ms, now_ms)
    for number in reversed(goes):
        partition = topic.partitions[number]
        if partition.mode is not PartitionModeCode.READ_ONLY:
            yield PartitionModeChanged(topic.topic_id, number, PartitionModeCode.READ_ONLY)
    if delay_ms == 0:
        for number in reversed(goes):
            yield from _offline(image, topic, number, topic.partitions[number], now_ms)


def _offline(
    image: ClusterImage, topic: TopicImage, number: int, partition: PartitionImage, now_ms: int
) -> Iterator[Record]:
    """Mode None; OfflinePartition, NonExistentPartition; each replica's deletion begins."""
    topic_id = topic.topic_id
    yield PartitionModeChanged(topic_id, number, PartitionModeCode.NONE)
    yield PartitionChanged(topic_id, number, leader=NO_LEADER)
    yield PartitionStateChanged(topic_id, number, DeletionState.OFFLINE)
    for broker in partition.replicas:
        yield ReplicaStateChanged(topic_id, number, broker, ReplicaState.OFFLINE, now_ms)
    yield PartitionStateChanged(topic_id, number, DeletionState.NON_EXISTENT)
    for broker in partition.replicas:
        yield _started(image, topic_id, number, broker, now_ms)


def _again(
    image: ClusterImage,
    topic: TopicImage,
    number: int,
    deletion: DeletingPartition,
    before_ms: int,
    now_ms: int,
) -> Iterator[Record]:
    """Start the deletions that failed an interval ago, and resume those that a crash cut off."""
    if deletion.state is not DeletionState.NON_EXISTENT:
        partition = topic.partitions[number]
        yield from _offline(image, topic, number, partition, now_ms)
        return
    for replica in deletion.replicas:
        failed = replica.state is ReplicaState.DELETION_INELIGIBLE and replica.at_ms <= before_ms
        waits = replica.state is ReplicaState.DELETION_STARTED
        left = waits and replica.broker not in image.brokers
        if failed or left or replica.state is ReplicaState.OFFLINE:
            yield _started(image, topic.topic_id, number, replica.broker, now_ms)


def _started(
    image: ClusterImage, topic_id: str, number: int, broker: int, now_ms: int
) -> ReplicaStateChanged:
    """A broker that is down cannot delete; one that was unregistered took its data along."""
    state = ReplicaState.DELETION_SUCCESSFUL
    if broker in image.brokers:
        online = image.is_online(broker)
        state = ReplicaState.DELETION_STARTED if online else ReplicaState.DELETION_INELIGIBLE
    return ReplicaStateChanged(topic_id, number, broker, state, now_ms)


def replica_deletion(deletion: DeletingPartition | None, broker: int) -> ReplicaDeletion | None:
    replicas = deletion.replicas if deletion else ()
    return next((one for one in replicas if one.broker == broker), None)


def _answers(
    name: str, numbers: list[int], mode: PartitionModeCode
) -> Iterator[DecidedItem[TopicPartition]]:
    return (DecidedItem(TopicPartition(name, n), status_code=int(mode)) for n in numbers)
