"""Partitions move: AlterPartitionReassignments (KIP-455).

A partition keeps its original replicas until every target replica is in sync. Then the others
go immediately (`PartitionChangeBuilder.complete`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    DirChooser,
    PartitionChangeBuilder,
    draft,
    is_being_deleted,
    records_of,
)
from kshunt.backend.embedded.controller.replica_placement import check_replicas
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import Reassignment, TopicImage
from kshunt.backend.embedded.metadata.records import PartitionChanged


def alter_partition_reassignments(
    image: ClusterImage,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> Decision[TopicPartition]:
    """Start or replace moves, or with None cancel them; each partition for itself.

    A move that replaces another takes the replicas of the unfinished one for original ones: a
    cancellation leads back to all of them. KIP-455 meant the replicas before either; Kafka 4.1
    does this (`PartitionReassignmentReplicas`), and so does its operator's cluster.

    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS,
    INVALID_REPLICATION_FACTOR if it changes and may not (KIP-860).
    """
    drafts: list[PartitionChangeBuilder] = []
    results: list[DecidedItem[TopicPartition]] = []
    dirs = DirChooser(image)
    for item, target in targets.items():
        try:
            change = partition_draft(image, item)
            if target is None:
                _cancel(change, item)
            else:
                wanted = check_target(image, change, target)
                _check_factor(change, wanted, allowed=allow_replication_factor_change)
                retarget(change, wanted, dirs)
            drafts.append(change)
            results.append(DecidedItem(item))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(item, refusal))
    return Decision.of(with_removal(image, records_of(drafts)), results)


def list_partition_reassignments(
    image: ClusterImage, partitions: Iterable[TopicPartition] | None = None
) -> tuple[Reassignment, ...]:
    """The moves of these partitions, or of all (ListPartitionReassignments); unknown: none."""
    if partitions is None:
        return image.reassignments()
    asked = set(partitions)
    moves = image.reassignments()
    return tuple(move for move in moves if TopicPartition(move.topic, move.partition) in asked)


def partition_draft(image: ClusterImage, item: TopicPartition) -> PartitionChangeBuilder:
    """A partition to change.

    Raises:
        ItemRefused: UNKNOWN_TOPIC_OR_PARTITION, also for one whose data is being deleted.
    """
    topic: TopicImage | None = image.topic(item.topic)
    if topic is None or item.partition not in topic.partitions:
        raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {item}.")
    if is_being_deleted(topic.partitions[item.partition]):
        message = f"The partition {item} is being deleted."
        raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, message)
    return draft(image, topic, item.partition)


def check_target(
    image: ClusterImage, change: PartitionChangeBuilder, target: Sequence[int]
) -> tuple[int, ...]:
    """A target that can stand: brokers that are registered, or that host the partition already.

    Raises:
        ItemRefused: INVALID_REPLICA_ASSIGNMENT.
    """
    strangers = [broker for broker in target if broker not in change.old.replicas]
    if strangers and len(set(target)) == len(target):
        check_replicas(image, strangers)
        return tuple(target)
    if not strangers and target and len(set(target)) == len(target):
        return tuple(target)
    return check_replicas(image, target)


def retarget(change: PartitionChangeBuilder, target: tuple[int, ...], dirs: DirChooser) -> None:
    """Make a partition move to `target`; the move ends immediately if nothing must be copied.

    Raises:
        ItemRefused: INVALID_REPLICA_ASSIGNMENT if only replicas that would go are in sync.
    """
    present = change.old.replicas
    adding = tuple(sorted(broker for broker in target if broker not in present))
    removing = tuple(sorted(broker for broker in present if broker not in target))
    _keep_replicas(change, (*target, *removing))
    change.adding, change.removing = adding, removing
    for broker in adding:
        if broker not in change.log_dirs:
            change.log_dirs[broker] = dirs.choose(broker)
    change.complete()


def _cancel(change: PartitionChangeBuilder, item: TopicPartition) -> None:
    """Back to the original replicas (Kafka's PartitionReassignmentRevert)."""
    if not change.old.reassigning:
        message = f"The partition {item} is not being reassigned."
        raise ItemRefused(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, message)
    _keep_replicas(change, change.old.original)
    change.adding = change.removing = ()
    change.complete()


def _keep_replicas(change: PartitionChangeBuilder, replicas: tuple[int, ...]) -> None:
    """Restrict a partition to these replicas.

    Where none of them is in sync that would be an unclean election, which is done only if the
    topic allows it, and if one of them is online.
    """
    isr = tuple(broker for broker in change.isr if broker in replicas)
    if not isr:
        change.replicas = replicas
        _unclean_or_refuse(change)
        return
    change.replicas, change.isr = replicas, isr


def _unclean_or_refuse(change: PartitionChangeBuilder) -> None:
    online = [broker for broker in change.replicas if change.usable(broker)]
    if not change.unclean or not online:
        raise ItemRefused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {change.topic.name}:{change.number} "
            "because it would require an unclean leader election.",
        )
    change.isr = (online[0],)


def _check_factor(
    change: PartitionChangeBuilder, target: tuple[int, ...], *, allowed: bool
) -> None:
    present = len(change.old.target)
    if not allowed and len(target) != present:
        raise ItemRefused(
            KafkaError.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def completed(image: ClusterImage) -> list[PartitionChanged]:
    """The ends of moves whose target replicas are all in sync."""
    moving = [
        draft(image, topic, number)
        for topic, number, p in image.moving()
        if not is_being_deleted(p)
    ]
    for change in moving:
        change.complete()
    return list(records_of(moving))
