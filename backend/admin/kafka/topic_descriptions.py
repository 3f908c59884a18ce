"""Topics in the shape of Kafka's `kafka-topics --describe`, made of several answers."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kafka.protocol.admin.topics import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

from kshunt.backend.admin.rpc.configs import all_configs
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.domain.cluster.assignment import ClusterState, partition_states
from kshunt.backend.domain.cluster.config_names import MIN_ISR
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
)
from kshunt.backend.wire import kip_requests
from kshunt.backend.wire.metadata import decode_metadata, decode_topic_ids
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

PARTITIONS_PER_ANSWER: Final = 2_000
"""Kafka's own limit of such an answer."""

Eligible: TypeAlias = Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
"""Eligible leader replicas, and the last ones that were known."""


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """What one Metadata answer says of topics."""

    state: ClusterState
    ids: Mapping[str, bytes]
    modes: Mapping[tuple[str, int], int]
    """Of the partitions that are not ReadWrite."""


@dataclass(frozen=True, slots=True)
class ConfigsRead:
    """What DescribeConfigs answers say of a topic."""

    changed: Mapping[str, str | None]
    """What is not as Kafka ships it, sorted by name."""
    min_isr: int | None


def read_topics(answer: RawAnswer) -> TopicsRead:
    """The topics of a Metadata answer.

    Raises:
        WireError: the answer is malformed.
    """
    body, version = answer.body, answer.version
    return TopicsRead(
        decode_metadata(body, version),
        decode_topic_ids(body, version),
        kip_requests.read_modes(body, version),
    )


def read_configs(answer: RawAnswer) -> Mapping[str, ConfigsRead]:
    """Whole configurations by topic; a topic that there is not is absent.

    Raises:
        NotAuthorized: the cluster does not show one.
        WireError: the answer is malformed.
    """
    return {topic: _configs(values) for topic, values in all_configs(answer).items()}


def _configs(values: Iterable[TopicConfig]) -> ConfigsRead:
    found = {one.name: one for one in values}
    changed = {name: one.value for name, one in sorted(found.items()) if not one.is_default}
    least = found[MIN_ISR].value or "" if MIN_ISR in found else ""
    return ConfigsRead(changed, int(least) if least.isdecimal() else None)


def eligible_request(topics: Sequence[str], cursor: tuple[str, int] | None) -> RawRequest:
    """DescribeTopicPartitions (KIP-966) of these topics, from a partition of one of them on."""
    message = DescribeTopicPartitionsRequest(
        topics=[(topic,) for topic in topics],
        response_partition_limit=PARTITIONS_PER_ANSWER,
        cursor=None,
    )
    if cursor is not None:
        message.cursor = DescribeTopicPartitionsRequest.Cursor(
            version=0, topic_name=cursor[0], partition_index=cursor[1]
        )
    return RawRequest.of(message)


def read_eligible(answer: RawAnswer) -> tuple[Eligible, tuple[str, int] | None]:
    """The eligible leader replicas of an answer, and where the next one has to begin.

    Raises:
        WireError: the answer is malformed.
    """
    response = decode_message(DescribeTopicPartitionsResponse, answer)
    found = {
        TopicPartition(topic.name, one.partition_index): (
            tuple(one.eligible_leader_replicas or ()),
            tuple(one.last_known_elr or ()),
        )
        for topic in response.topics
        for one in topic.partitions
    }
    cursor = response.next_cursor
    return found, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def described_topics(
    read: TopicsRead,
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    configs: Mapping[str, ConfigsRead],
    min_isr: Mapping[str, int],
    eligible: Eligible,
) -> tuple[TopicDescription, ...]:
    """The topics by name; those that the cluster does not describe are left out."""
    partitions: dict[str, list[DescribedPartition]] = {
        name: [] for name in read.state.assignment.topics if name not in read.state.topic_errors
    }
    for item, state in partition_states(read.state.assignment).items():
        if item.topic in partitions:
            mode = PartitionMode(read.modes.get((item.topic, item.partition), 0))
            leaders_of_item = eligible.get(item, (None, None))
            partitions[item.topic].append(
                _partition(state, mode, ongoing.get(item), *leaders_of_item)
            )
    nothing = ConfigsRead({}, None)
    return tuple(
        TopicDescription(
            name,
            topic_id_text(read.ids.get(name, b"")),
            tuple(sorted(found, key=lambda one: one.number)),
            configs.get(name, nothing).changed,
            configs.get(name, nothing).min_isr if name in configs else min_isr.get(name),
        )
        for name, found in sorted(partitions.items())
    )


def _partition(
    state: PartitionState,
    mode: PartitionMode,
    move: OngoingReassignment | None,
    elr: tuple[int, ...] | None,
    last_known_elr: tuple[int, ...] | None,
) -> DescribedPartition:
    return DescribedPartition(
        state.partition.partition,
        state.leader,
        state.replicas,
        state.isr,
        state.offline,
        mode,
        () if move is None else move.adding,
        () if move is None else move.removing,
        elr,
        last_known_elr,
    )


def topic_id_text(topic_id: bytes) -> str:
    """An id as Kafka's Uuid writes it; empty where there is none."""
    if not any(topic_id):
        return ""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")
