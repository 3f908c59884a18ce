"""The ISR changes: AlterPartition, by which a leader reports it (KIP-497)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    PartitionChangeBuilder,
    records_of,
)
from kshunt.backend.embedded.controller.reassign import partition_draft
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import PartitionChanged


@dataclass(frozen=True, slots=True)
class IsrReport:
    """What a leader says of one partition."""

    leader_epoch: int
    partition_epoch: int
    """The state that the leader saw; a report about an older one is refused."""
    isr: tuple[int, ...]


def alter_partition(
    image: ClusterImage,
    broker: int,
    broker_epoch: int,
    reports: Mapping[TopicPartition, IsrReport],
) -> Decision[TopicPartition]:
    """Take over ISRs that a leader reports; this is what completes a move.

    The leader's own report can depose it, since the completed move removes its replica. It then
    gets NEW_LEADER_ELECTED, and the change holds. STALE_BROKER_EPOCH for the whole request;
    UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, NOT_CONTROLLER for a leader epoch of the
    future, INVALID_UPDATE_VERSION for an old partition epoch, INVALID_REQUEST,
    INELIGIBLE_REPLICA for a replica that is offline.
    """
    state = image.brokers.get(broker)
    if state is None or state.epoch != broker_epoch:
        known = None if state is None else state.epoch
        message = f"Expected broker epoch {broker_epoch}, but got broker epoch {known}"
        return Decision(error=KafkaError.STALE_BROKER_EPOCH, message=message)
    changes: list[PartitionChanged] = []
    results: list[DecidedItem[TopicPartition]] = []
    for item, report in reports.items():
        try:
            change = _reported(image, broker, item, report)
            changes += records_of([change])
            results.append(_result(item, change, broker))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(item, refusal))
    return Decision.of(with_removal(image, changes), results)


def _reported(
    image: ClusterImage, broker: int, item: TopicPartition, report: IsrReport
) -> PartitionChangeBuilder:
    change = partition_draft(image, item)
    _check_epochs(change, broker, report)
    isr = report.isr
    if not set(isr) <= set(change.old.replicas) or len(set(isr)) < len(isr) or broker not in isr:
        message = f"{item} with leader {broker} cannot have the ISR {list(isr)}."
        raise ItemRefused(KafkaError.INVALID_REQUEST, message)
    offline = [one for one in isr if one not in change.old.isr and not change.usable(one)]
    if offline:
        message = f"Replica {offline[0]} of {item} is offline."
        raise ItemRefused(KafkaError.INELIGIBLE_REPLICA, message)
    change.isr = isr
    change.complete()
    return change


def _check_epochs(change: PartitionChangeBuilder, broker: int, report: IsrReport) -> None:
    old = change.old
    if report.leader_epoch < old.leader_epoch:
        raise ItemRefused(KafkaError.FENCED_LEADER_EPOCH, f"The epoch is {old.leader_epoch}.")
    if report.leader_epoch > old.leader_epoch or report.partition_epoch > old.partition_epoch:
        raise ItemRefused(KafkaError.NOT_CONTROLLER, "The report knows more than this controller.")
    if broker != old.leader:
        raise ItemRefused(KafkaError.INVALID_REQUEST, f"The leader is {old.leader}.")
    if report.partition_epoch < old.partition_epoch:
        message = f"The partition epoch is {old.partition_epoch}."
        raise ItemRefused(KafkaError.INVALID_UPDATE_VERSION, message)


def _result(
    item: TopicPartition, change: PartitionChangeBuilder, broker: int
) -> DecidedItem[TopicPartition]:
    if change.leader == broker:
        return DecidedItem(item)
    message = f"The move is complete, and {change.leader} leads."
    return DecidedItem(item, KafkaError.NEW_LEADER_ELECTED, message)
