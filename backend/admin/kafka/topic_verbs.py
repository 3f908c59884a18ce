"""What `KafkaAdmin` does to whole topics: describe, alter, shrink."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from backend.admin.kafka.topic_descriptions import (
    DESCRIBE_TOPIC_PARTITIONS_KEY,
    ConfigsRead,
    Eligible,
    described_topics,
    eligible_request,
    read_configs,
    read_eligible,
    read_topics,
)
from backend.admin.kips import alter_topics_native, partition_deletion
from backend.admin.port.cluster_admin import ItemResult
from backend.admin.rpc.broker_calls import has
from backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from backend.domain.cluster.partition_modes import PartitionMode
from backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)
from backend.domain.topics.alteration import AlteredTopic
from backend.domain.topics.descriptions import TopicsDescribed
from backend.errors import NotAuthorized, NotSupported
from backend.wire import metadata
from backend.wire.raw import RawAnswer, RawRequest

if TYPE_CHECKING:
    from backend.admin.kips.backend_placer import BackendPlacer

T = TypeVar("T")

CONFIGS_PER_REQUEST: Final = 200
"""Topics whose whole configurations are asked for at once: each has some 35 keys."""


class Cluster(partition_deletion.ShrinkCluster, Protocol):
    """What `KafkaAdmin` has for it."""

    placing: BackendPlacer | None

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """See `ClusterAdmin.min_isr`."""
        ...

    async def _ask_any(
        self, request: Callable[[], RawRequest], *, timeout_s: float
    ) -> RawAnswer: ...

    async def _topic_configs(
        self,
        topics: Sequence[str],
        keys: Sequence[str] | None,
        read: Callable[[RawAnswer], T],
        timeout_s: float,
    ) -> T: ...


def metadata_request(topics: Sequence[str] | None) -> RawRequest:
    """Metadata of the topics named, or of all."""
    return RawRequest(
        "Metadata",
        metadata.METADATA_KEY,
        metadata.METADATA_VERSIONS,
        metadata.METADATA_FLEXIBLE_FROM,
        lambda version: metadata.encode_metadata(topics, version),
    )


class TopicVerbs:
    """A part of `KafkaAdmin`."""

    async def describe_topics(
        self: Cluster,
        topics: Sequence[str] | None = None,
        *,
        configs: bool,
        min_isr: bool,
        timeout_s: float,
    ) -> TopicsDescribed:
        """See `ClusterAdmin.describe_topics`."""
        answer = await self._ask_any(lambda: metadata_request(topics), timeout_s=timeout_s)
        read = await asyncio.to_thread(read_topics, answer)
        ongoing = await _moving(self, timeout_s)
        names = [t for t in read.state.assignment.topics if t not in read.state.topic_errors]
        found = await _configs(self, names, timeout_s) if configs else {}
        least = await self.min_isr(names, timeout_s=timeout_s) if min_isr and not configs else {}
        eligible = await _eligible(self, names, timeout_s)
        described = await asyncio.to_thread(described_topics, read, ongoing, found, least, eligible)
        return TopicsDescribed(described, frozenset(read.state.brokers))

    async def partition_modes(
        self: Cluster, topics: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, Mapping[int, PartitionMode]]:
        """The mode of each partition of these topics; a topic that there is not is absent."""
        answer = await self._ask_any(lambda: metadata_request(topics), timeout_s=timeout_s)
        read = await asyncio.to_thread(read_topics, answer)
        described = await asyncio.to_thread(described_topics, read, {}, {}, {}, {})
        return {topic.name: {p.number: p.mode for p in topic.partitions} for topic in described}

    async def alter_topics(
        self: Cluster,
        topics: Mapping[str, AlteredTopic],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> Mapping[str, ItemResult]:
        """See `ClusterAdmin.alter_topics`."""
        return await alter_topics_native.alter_topics(
            self,
            topics,
            validate_only=validate_only,
            timeout_s=timeout_s,
            random=random.Random(),
            placing=self.placing,
        )

    async def shrink_support(self: Cluster, *, timeout_s: float) -> ShrinkSupport:
        """See `ClusterAdmin.shrink_support`."""
        return await partition_deletion.shrink_support(self, timeout_s=timeout_s)

    async def delete_partitions(
        self: Cluster,
        topics: Mapping[str, DeletePartitions],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> Mapping[TopicPartition, DeletedPartition]:
        """See `ClusterAdmin.delete_partitions`."""
        return await partition_deletion.delete_partitions(
            self, topics, validate_only=validate_only, timeout_s=timeout_s
        )


async def _moving(
    cluster: Cluster, timeout_s: float
) -> Mapping[TopicPartition, OngoingReassignment]:
    """What moves; nothing where we may not know, as in Kafka's tool."""
    try:
        return await cluster.list_reassignments(timeout_s=timeout_s)
    except (NotAuthorized, NotSupported):
        return {}


async def _configs(
    cluster: Cluster, topics: Sequence[str], timeout_s: float
) -> Mapping[str, ConfigsRead]:
    size = CONFIGS_PER_REQUEST
    chunks = [topics[start : start + size] for start in range(0, len(topics), size)]
    found: dict[str, ConfigsRead] = {}
    # One after the other: they are long, and others ask the same brokers.
    for chunk in chunks:
        found.update(await cluster._topic_configs(chunk, None, read_configs, timeout_s))
    return found


async def _eligible(cluster: Cluster, topics: Sequence[str], timeout_s: float) -> Eligible:
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
