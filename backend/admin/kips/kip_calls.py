"""The seeds' messages (`kshunt.backend.wire.kip_requests`) as requests, and what answers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kshunt.backend.admin.port.item_result import ItemResult, PartitionResults
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.admin.rpc.error_mapping import decode_message, item_result
from kshunt.backend.admin.rpc.requests import UNANSWERED, aligned
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

Entry = TypeVar("Entry")

ROLES_VERSION = 1
"""AlterInterbrokerThrottledReplicas: the first version that tells leaders from followers."""


def reassign_request(
    targets: Mapping[TopicPartition, Sequence[int]], options: ReassignOptions
) -> RawRequest:
    """ReassignPartitions (KIP-179)."""
    throttle = options.throttle_bytes_per_s
    message = kip_requests.ReassignPartitionsRequest(
        topic_reassignments=_by_topic(
            (partition, (partition.partition, list(target)))
            for partition, target in targets.items()
        ),
        timeout=_ms(options.timeout_s),
        validate_only=options.validate_only,
        throttle=kip_requests.UNTHROTTLED if throttle is None else throttle,
        remove_throttle=options.auto_remove_throttle,
    )
    return RawRequest.of(message)


def reassigned(answer: RawAnswer, asked: Iterable[TopicPartition]) -> PartitionResults:
    """What became of each partition of a `reassign_request`.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.ReassignPartitionsResponse, answer)
    return aligned(
        asked,
        (
            (topic.topic, entry.partition_id, entry.error_code, entry.error_message)
            for topic in response.reassign_partition_result
            for entry in topic.partition_error
        ),
    )


def rates_request(
    rates: Mapping[int, ThrottledRate], *, validate_only: bool, timeout_s: float
) -> RawRequest:
    """AlterInterbrokerThrottledRates (KIP-179), for rates that are all given."""
    message = kip_requests.AlterInterbrokerThrottledRatesRequest(
        broker_throttles=[
            (broker, rate.leader_bytes_per_s, rate.follower_bytes_per_s)
            for broker, rate in rates.items()
        ],
        remove_throttle=True,
        timeout=_ms(timeout_s),
        validate_only=validate_only,
    )
    return RawRequest.of(message, throttles=False)


def rates_altered(answer: RawAnswer, asked: Iterable[int]) -> Mapping[int, ItemResult]:
    """What became of each broker of a `rates_request`.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.AlterInterbrokerThrottledRatesResponse, answer)
    found = {
        entry.broker_id: item_result(entry.error_code, entry.error_message)
        for entry in response.broker_error
    }
    return {broker: found.get(broker, UNANSWERED) for broker in asked}


def replicas_request(
    replicas: Mapping[str, ThrottledReplicas], *, validate_only: bool, timeout_s: float
) -> RawRequest:
    """AlterInterbrokerThrottledReplicas (KIP-179), for lists of which none is `*`."""
    request = kip_requests.AlterInterbrokerThrottledReplicasRequest
    made = request.TopicThrottles.PartitionThrottles

    def partitions(lists: ThrottledReplicas) -> list[Any]:
        return [
            made(
                version=ROLES_VERSION,
                partition_id=number,
                leaders=_of(lists.leaders, number),
                followers=_of(lists.followers, number),
            )
            for number in sorted({n for n, _ in lists.leaders.pairs | lists.followers.pairs})
        ]

    message = request(
        version=ROLES_VERSION,
        topic_throttles=[(topic, partitions(lists)) for topic, lists in replicas.items()],
        remove_throttle=True,
        timeout=_ms(timeout_s),
        validate_only=validate_only,
    )
    return RawRequest.of(message, min_version=ROLES_VERSION, throttles=False)


def replicas_altered(answer: RawAnswer, asked: Iterable[str]) -> Mapping[str, ItemResult]:
    """What became of each topic of a `replicas_request`: the first error of its partitions.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.AlterInterbrokerThrottledReplicasResponse, answer)
    found: dict[str, ItemResult] = {}
    for topic in response.topic_errors:
        for entry in topic.partition_errors:
            if found.setdefault(topic.topic, item_result(0)).ok:
                found[topic.topic] = item_result(entry.error_code, entry.error_message)
    return {topic: found.get(topic, UNANSWERED) for topic in asked}


def alter_topics_request(topics: Mapping[str, AlteredTopic]) -> RawRequest:
    """AlterTopics (KIP-179's early draft)."""
    message = kip_requests.AlterTopicsRequest(
        altered_topic=[
            (
                topic,
                wanted.partitions,
                wanted.replication_factor,
                [(number, list(replicas)) for number, replicas in wanted.assignments.items()],
            )
            for topic, wanted in topics.items()
        ]
    )
    return RawRequest.of(message, throttles=False)


def topics_altered(answer: RawAnswer, asked: Iterable[str]) -> Mapping[str, ItemResult]:
    """What became of each topic of an `alter_topics_request`.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.AlterTopicsResponse, answer)
    found = {
        entry.topic: item_result(entry.error, entry.detail) for entry in response.altered_topic
    }
    return {topic: found.get(topic, UNANSWERED) for topic in asked}


def election_request(partitions: Iterable[TopicPartition] | None, timeout_s: float) -> RawRequest:
    """ElectPreferredLeaders (KIP-183); None is for every partition."""
    named = None if partitions is None else _by_topic((p, p.partition) for p in partitions)
    message = kip_requests.ElectPreferredLeadersRequest(
        topic_partitions=named, timeout_ms=_ms(timeout_s)
    )
    return RawRequest.of(message)


def elected(answer: RawAnswer, asked: Iterable[TopicPartition] | None) -> PartitionResults:
    """What became of each partition of an `election_request`.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.ElectPreferredLeadersResponse, answer)
    return aligned(
        asked,
        (
            (topic.topic, entry.partition_id, entry.error_code, entry.error_message)
            for topic in response.replica_election_result
            for entry in topic.partition_result
        ),
    )


def status_request(replicas: Iterable[tuple[TopicPartition, int]]) -> RawRequest:
    """ReplicaStatus (KIP-179's early draft), of followers, for their leader."""
    asked = [(*partition, broker) for partition, broker in replicas]
    return RawRequest.of(kip_requests.ReplicaStatusRequest(replica=asked), throttles=False)


@dataclass(frozen=True, slots=True)
class Status:
    """What a leader says of one follower."""

    error_code: int
    status_ms: int
    """When it was so, milliseconds since the epoch; -1 with an error."""
    lag_messages: int
    """-1 with an error."""


def statuses(answer: RawAnswer) -> Mapping[tuple[TopicPartition, int], Status]:
    """What the answer to a `status_request` says of each follower.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(kip_requests.ReplicaStatusResponse, answer)
    return {
        (TopicPartition(entry.topic, entry.partition), entry.broker): Status(
            entry.error, entry.status_time, entry.lag
        )
        for entry in response.replica_status
    }


def _of(replicas: ReplicaSet, number: int) -> list[int]:
    return sorted(broker for partition, broker in replicas.pairs if partition == number)


def _by_topic(
    entries: Iterable[tuple[TopicPartition, Entry]],
) -> list[tuple[str, list[Entry]]]:
    topics: dict[str, list[Entry]] = {}
    for partition, entry in entries:
        topics.setdefault(partition.topic, []).append(entry)
    return list(topics.items())


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
