"""The small requests: topics, moves, partitions, log directories. Messages are kafka-python's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kshunt.backend.admin.port.item_result import ItemResult, PartitionResults
from kshunt.backend.admin.rpc.error_mapping import decode_message, item_result, raise_for_code
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.error_codes import NOT_CONTROLLER, UNKNOWN_TOPIC_OR_PARTITION
from kshunt.backend.wire import metadata
from kshunt.backend.wire.api_keys import METADATA_KEY
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

PREFERRED: Final = 0
"""`ElectionType.PREFERRED`."""
UNANSWERED: Final = item_result(-1, "the cluster's answer does not mention it")
_THROTTLE_TIME_BYTES: Final = 4
_OPERATIONS_FROM, _METADATA_UNTIL = 8, 12
"""Metadata tells what we are authorized to do from version 8 on (Kafka 2.3)."""


def metadata_request(topics: Sequence[str] | None) -> RawRequest:
    """Metadata of the topics named, or of all."""
    return RawRequest(
        "Metadata",
        METADATA_KEY,
        metadata.METADATA_VERSIONS,
        metadata.METADATA_FLEXIBLE_FROM,
        lambda version: metadata.encode_metadata(topics, version),
    )


def topic_request(topic: str, *, operations: bool = False) -> RawRequest:
    """Metadata of one topic; with `operations`, what of them we are authorized to do."""
    message = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=operations,
    )
    return RawRequest.of(message, min_version=_OPERATIONS_FROM, max_version=_METADATA_UNTIL)


def topic_entry(answer: RawAnswer) -> Any | None:
    """What an answer to a `topic_request` says; None where the broker knows no such topic.

    Raises:
        NotAuthorized: it does not show the topic to us.
        ClusterError: it refuses for another reason.
    """
    (entry,) = decode_message(MetadataResponse, answer).topics or (None,)
    if entry is None or entry.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise_for_code(entry.error_code, None, f"Metadata of {entry.name}")
    return entry


def list_request(timeout_s: float) -> RawRequest:
    """Which partitions move now (KIP-455)."""
    return RawRequest.of(
        ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=None)
    )


def listed(answer: RawAnswer) -> Mapping[TopicPartition, OngoingReassignment]:
    """The partitions that move.

    Raises:
        NotAuthorized: the cluster refuses this principal.
        ClusterError: it refuses for another reason.
        WireError: the answer is malformed.
    """
    response = decode_message(ListPartitionReassignmentsResponse, answer)
    raise_for_code(response.error_code, response.error_message, "Listing reassignments")
    return {
        partition: OngoingReassignment(
            partition,
            tuple(entry.replicas),
            tuple(entry.adding_replicas),
            tuple(entry.removing_replicas),
        )
        for topic in response.topics
        for entry in topic.partitions
        for partition in [TopicPartition(topic.name, entry.partition_index)]
    }


def reassignment_request(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_s: float
) -> RawRequest:
    """Start reassignments (KIP-455), or cancel those whose target is None."""
    by_topic: dict[str, list[tuple[int, list[int] | None]]] = {}
    for (topic, partition), target in targets.items():
        replicas = None if target is None else list(target)
        by_topic.setdefault(topic, []).append((partition, replicas))
    message = AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout_s * 1000), topics=list(by_topic.items())
    )
    # Version 1 adds a guard of the replication factor, which is checked before this is sent.
    return RawRequest.of(message, max_version=0)


def reassigned(answer: RawAnswer, asked: Iterable[TopicPartition]) -> PartitionResults:
    """What became of each partition of a `reassignment_request`.

    Raises:
        NotAuthorized: the cluster refuses this principal.
        ClusterError: it refuses the whole request for another reason.
        WireError: the answer is malformed.
    """
    response = decode_message(AlterPartitionReassignmentsResponse, answer)
    raise_for_code(response.error_code, response.error_message, "Reassigning partitions")
    return aligned(
        asked,
        (
            (topic.name, entry.partition_index, entry.error_code, entry.error_message)
            for topic in response.responses
            for entry in topic.partitions
        ),
    )


def create_partitions_request(
    topics: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]],
    *,
    validate_only: bool,
    timeout_s: float,
) -> RawRequest:
    """Give topics more partitions: how many in all, and the replicas of those that are new.

    Without replica lists the cluster places them.
    """
    entries = [
        (topic, count, None if lists is None else [(list(replicas),) for replicas in lists])
        for topic, (count, lists) in topics.items()
    ]
    message = CreatePartitionsRequest(
        topics=entries, timeout_ms=int(timeout_s * 1000), validate_only=validate_only
    )
    return RawRequest.of(message)


def partitions_created(answer: RawAnswer, asked: Iterable[str]) -> Mapping[str, ItemResult]:
    """What became of each topic of a `create_partitions_request`.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(CreatePartitionsResponse, answer)
    found = {
        entry.name: item_result(entry.error_code, entry.error_message) for entry in response.results
    }
    return {topic: found.get(topic, UNANSWERED) for topic in asked}


def log_dirs_request(paths: Mapping[TopicPartition, str]) -> RawRequest:
    """Move a broker's replicas to its log directories (KIP-113)."""
    by_path: dict[str, list[TopicPartition]] = {}
    for partition, path in paths.items():
        by_path.setdefault(path, []).append(partition)
    dirs = [(path, list(_by_topic(moving).items())) for path, moving in by_path.items()]
    return RawRequest.of(AlterReplicaLogDirsRequest(dirs=dirs), min_version=1)


def log_dirs_altered(answer: RawAnswer, asked: Iterable[TopicPartition]) -> PartitionResults:
    """What became of each replica's move to a directory.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(AlterReplicaLogDirsResponse, answer)
    return aligned(
        asked,
        (
            (topic.topic_name, entry.partition_index, entry.error_code, None)
            for topic in response.results
            for entry in topic.partitions
        ),
    )


def is_for_another_controller(answer: RawAnswer) -> bool:
    """True for NOT_CONTROLLER in an answer whose error follows its throttle time."""
    code = answer.body[_THROTTLE_TIME_BYTES : _THROTTLE_TIME_BYTES + 2]
    return answer.throttles and int.from_bytes(code, "big", signed=True) == NOT_CONTROLLER


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def aligned(
    asked: Iterable[TopicPartition] | None, entries: Iterable[tuple[str, int, int, Any]]
) -> PartitionResults:
    """Results of `(topic, partition, code, message)` entries, one for each that was asked for."""
    results = {
        TopicPartition(topic, partition): item_result(code, message)
        for topic, partition, code, message in entries
    }
    if asked is None:
        return results
    return {partition: results.get(partition, UNANSWERED) for partition in asked}
