"""Topics in the shape of Kafka's `kafka-topics --describe`, made of several answers."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from kafka.protocol.admin.topics import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

from kshunt.backend.admin.rpc.broker_calls import BrokerCalls, has
from kshunt.backend.admin.rpc.configs import all_configs
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.admin.rpc.requests import metadata_request
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
    TopicsDescribed,
)
from kshunt.backend.errors import NotAuthorized, NotSupported
from kshunt.backend.wire import seeds
from kshunt.backend.wire.api_keys import DESCRIBE_TOPIC_PARTITIONS_KEY
from kshunt.backend.wire.metadata import decode_metadata, decode_topic_ids
from kshunt.backend.wire.raw import RawAnswer, RawRequest

T = TypeVar("T")

CONFIGS_PER_REQUEST: Final = 200
"""Topics whose whole configurations are asked for at once: each has some 35 keys."""

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


class TopicReads(BrokerCalls, Protocol):
    """The calls that a description is made of."""

    async def ask_any(self, request: Callable[[], RawRequest], *, timeout_s: float) -> RawAnswer:
        """The answer of whichever broker gives it first."""
        ...

    async def ask_topic_configs(
        self,
        topics: Sequence[str],
        keys: Sequence[str] | None,
        read: Callable[[RawAnswer], T],
        timeout_s: float,
    ) -> T:
        """What any broker says of a few keys of these topics, or of all of them."""
        ...

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """See `ClusterAdmin.min_isr`."""
        ...


async def describe_topics(
    cluster: TopicReads,
    topics: Sequence[str] | None = None,
    *,
    configs: bool,
    min_isr: bool,
    timeout_s: float,
) -> TopicsDescribed:
    """See `ClusterAdmin.describe_topics`."""
    answer = await cluster.ask_any(lambda: metadata_request(topics), timeout_s=timeout_s)
    read = await asyncio.to_thread(read_topics, answer)
    ongoing = await _moving(cluster, timeout_s)
    names = [t for t in read.state.assignment.topics if t not in read.state.topic_errors]
    found = await _all_configs(cluster, names, timeout_s) if configs else {}
    least = await cluster.min_isr(names, timeout_s=timeout_s) if min_isr and not configs else {}
    eligible = await _eligible(cluster, names, timeout_s)
    described = await asyncio.to_thread(described_topics, read, ongoing, found, least, eligible)
    return TopicsDescribed(described, frozenset(read.state.brokers))


async def partition_modes(
    cluster: TopicReads, topics: Sequence[str], *, timeout_s: float
) -> Mapping[str, Mapping[int, PartitionMode]]:
    """The mode of each partition of these topics; a topic that there is not is absent."""
    answer = await cluster.ask_any(lambda: metadata_request(topics), timeout_s=timeout_s)
    read = await asyncio.to_thread(read_topics, answer)
    described = await asyncio.to_thread(described_topics, read, {}, {}, {}, {})
    return {topic.name: {p.number: p.mode for p in topic.partitions} for topic in described}


async def _moving(
    cluster: TopicReads, timeout_s: float
) -> Mapping[TopicPartition, OngoingReassignment]:
    """What moves; nothing where we may not know, as in Kafka's tool."""
    try:
        return await cluster.list_reassignments(timeout_s=timeout_s)
    except (NotAuthorized, NotSupported):
        return {}


async def _all_configs(
    cluster: TopicReads, topics: Sequence[str], timeout_s: float
) -> Mapping[str, ConfigsRead]:
    size = CONFIGS_PER_REQUEST
    chunks = [topics[start : start + size] for start in range(0, len(topics), size)]
    found: dict[str, ConfigsRead] = {}
    # One after the other: they are long, and others ask the same brokers.
    for chunk in chunks:
        found.update(await cluster.ask_topic_configs(chunk, None, read_configs, timeout_s))
    return found


async def _eligible(cluster: TopicReads, topics: Sequence[str], timeout_s: float) -> Eligible:
    """The eligible leader replicas; nothing where brokers do not tell (before Kafka 3.7)."""
    if not topics or not await has(cluster, DESCRIBE_TOPIC_PARTITIONS_KEY, timeout_s):
        return {}
    names = sorted(topics)
    found: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    cursor = None
    while True:
        request = partial(eligible_request, names, cursor)
        answer = await cluster.ask_controller(request, timeout_s=timeout_s)
        some, following = await asyncio.to_thread(read_eligible, answer)
        found.update(some)
        if following is None or following == cursor:
            return found
        cursor = following
        # A cursor stands at one of the topics that are asked for, and they come by name.
        names = [name for name in names if name >= cursor[0]]


def read_topics(answer: RawAnswer) -> TopicsRead:
    """The topics of a Metadata answer.

    Raises:
        WireError: the answer is malformed.
    """
    body, version = answer.body, answer.version
    return TopicsRead(
        decode_metadata(body, version),
        decode_topic_ids(body, version),
        seeds.read_modes(body, version),
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
            told = eligible.get(item, (None, None))
            partitions[item.topic].append(_partition(state, mode, ongoing.get(item), *told))
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
