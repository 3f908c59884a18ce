"""The cluster as clients see it: Metadata, DescribeCluster, DescribeTopicPartitions.

Kafka's `KRaftMetadataCache` and `DescribeTopicPartitionsRequestHandler`. Any broker answers, for
all of them. The controller that they name is the cluster's, though Kafka's brokers name any one of
themselves: the seeds' RPCs of 2017 ask for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.admin.metadata_bytes import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    MetadataTopics,
    offline_replicas,
    topic_head,
)
from kshunt.backend.embedded.handlers.responses import (
    CLUSTER_OPERATIONS,
    NOT_LISTED,
    TOPIC_OPERATIONS,
    committed,
    invalid_topic_name,
    response,
    topic_id_of,
)
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_ENDPOINT_TYPE,
)
from kshunt.backend.wire.api_keys import (
    DESCRIBE_CLUSTER_KEY,
    DESCRIBE_TOPIC_PARTITIONS_KEY,
    METADATA_KEY,
)
from kshunt.backend.wire.reader import array_length

PARTITIONS_MAX: Final = 2000
"""Kafka's default of max.request.partition.size.limit."""

AUTO_CREATION_FROM: Final = 4
OPERATIONS_FROM: Final = 8
CLUSTER_OPERATIONS_UNTIL: Final = 10
_IDS_ASKED_FROM: Final = 12
"""Two versions before it have the field, and refuse it."""
_ERROR_FROM: Final = 13
_BROKERS, _CONTROLLERS = 1, 2
"""DescribeCluster's types of endpoints."""


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key; one call serves all brokers, which share what is kept."""
    answers = _Metadata(world)
    return {
        METADATA_KEY: answers.metadata,
        DESCRIBE_CLUSTER_KEY: answers.describe_cluster,
        DESCRIBE_TOPIC_PARTITIONS_KEY: answers.describe_topic_partitions,
    }


class _Metadata:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._topics = MetadataTopics(world.core.image, modes=world.native)

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    async def metadata(self, context: RequestContext, message: Any) -> bytes:
        """Brokers, and the topics asked for."""
        version = context.version
        _check_names(version, message.topics)
        if message.topics is None or (version == 0 and not message.topics):
            topics = self._topics.describe(version, self._image.topics.values())
        elif version >= TOPIC_IDS_FROM and any(topic_id_of(t.topic_id) for t in message.topics):
            topics = self._by_id(version, message.topics)
        else:
            topics = self._by_name(context, message)
        return self._joined(version, message, topics)

    def _by_id(self, version: int, asked: Iterable[Any]) -> list[bytes]:
        """Topics by their ids; it ignores those that have only a name, as Kafka does."""
        ids = dict.fromkeys(topic_id_of(topic.topic_id) for topic in asked)
        found = {topic_id: self._image.topic_by_id(topic_id) for topic_id in ids if topic_id}
        unknown = [bytes.fromhex(topic_id) for topic_id, topic in found.items() if topic is None]
        heads = [topic_head(version, UNKNOWN_TOPIC_ID, None, topic_id, 0) for topic_id in unknown]
        known = [topic for topic in found.values() if topic is not None]
        return heads + self._topics.describe(version, known)

    def _by_name(self, context: RequestContext, message: Any) -> list[bytes]:
        """Topics by their names; those that there are not come last, and may be created."""
        version = context.version
        found = {topic.name: self._image.topic(topic.name) for topic in message.topics}
        known = self._topics.describe(version, [t for t in found.values() if t is not None])
        missing = [name for name, topic in found.items() if topic is None]
        invalid = {name for name in missing if invalid_topic_name(name)}
        if version < AUTO_CREATION_FROM or message.allow_auto_topic_creation:
            self._create(context, [name for name in missing if name not in invalid])
        codes = UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION
        errors = [topic_head(version, codes[n in invalid], n, b"", 0) for n in missing]
        return known + errors

    def _create(self, context: RequestContext, names: Iterable[str]) -> None:
        """Make topics that a client looks for. Kafka's own are left to their coordinators."""
        wanted = [NewTopic(name) for name in names if name not in INTERNAL_TOPICS]
        if wanted and self._image.cluster_config("auto.create.topics.enable") == "true":
            placement = self._world.placement_for(context.principal)
            random = self._world.core.random
            committed(self._world, create_topics(self._image, wanted, random, placement=placement))

    def _joined(self, version: int, message: Any, topics: Sequence[bytes]) -> bytes:
        """The whole answer: that without topics, with `topics` in their place."""
        answer = response(
            METADATA_KEY,
            version,
            brokers=self._nodes(METADATA_KEY, version, "MetadataResponseBroker", "node_id"),
            cluster_id=self._world.cluster_id,
            controller_id=self._image.controller,
        )
        tells = OPERATIONS_FROM <= version <= CLUSTER_OPERATIONS_UNTIL
        if tells and message.include_cluster_authorized_operations:
            answer.authorized_operations = CLUSTER_OPERATIONS
        empty = bytes(answer.encode(version=version))
        flexible = version >= FLEXIBLE_FROM
        after = len(empty) - (4 * tells + 2 * (version >= _ERROR_FROM) + flexible)
        before = after - len(array_length(0, flexible=flexible))
        end = _topic_end(version, message)
        body = [empty[:before], array_length(len(topics), flexible=flexible)]
        for topic in topics:
            body += (topic, end)
        return b"".join((*body, empty[after:]))

    async def describe_cluster(self, context: RequestContext, message: Any) -> Any:
        """Brokers, the controller and the cluster's id."""
        version = context.version
        wanted = message.endpoint_type if version >= 1 else _BROKERS
        if wanted == _CONTROLLERS:
            raise WireReply(
                MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
                "type CONTROLLER",
            )
        if wanted != _BROKERS:
            raise WireReply(UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {wanted}")
        fenced = version >= 2 and message.include_fenced_brokers
        kind = "DescribeClusterBroker"
        answer = response(
            DESCRIBE_CLUSTER_KEY,
            version,
            cluster_id=self._world.cluster_id,
            controller_id=self._image.controller,
            brokers=self._nodes(DESCRIBE_CLUSTER_KEY, version, kind, "broker_id", fenced=fenced),
        )
        if message.include_cluster_authorized_operations:
            answer.authorized_operations = CLUSTER_OPERATIONS
        return answer

    def _nodes(
        self, key: int, version: int, kind: str, id_field: str, *, fenced: bool = False
    ) -> list[Any]:
        """The brokers that run, by id, and with `fenced` all that registered."""
        entry = getattr(KAFKA_APIS[key].response, kind)
        nodes = []
        for broker in map(self._image.brokers.__getitem__, sorted(self._image.brokers)):
            if fenced or not broker.fenced:
                where = {"host": broker.host, "port": broker.port, "rack": broker.rack}
                node = entry(version=version, **{id_field: broker.id}, **where)
                if fenced:
                    node.is_fenced = broker.fenced
                nodes.append(node)
        return nodes

    async def describe_topic_partitions(self, context: RequestContext, message: Any) -> Any:
        """Topics by name, page by page (KIP-966)."""
        # kafka-python's classes share their default lists, so each one gets its own.
        answer = response(DESCRIBE_TOPIC_PARTITIONS_KEY, context.version, topics=[])
        _check_cursor(message)
        start, offset = "", 0
        if message.cursor is not None:
            start, offset = message.cursor.topic_name, message.cursor.partition_index
        names = {topic.name for topic in message.topics} or set(self._image.topics)
        left = max(min(PARTITIONS_MAX, message.response_partition_limit), 1)
        for name in sorted(name for name in names if name >= start):
            first = offset if name == start else 0
            if left == 0:
                answer.next_cursor = _cursor(name, 0)
                break
            entry, following = self._page(context.version, name, first, left)
            answer.topics.append(entry)
            left -= len(entry.partitions)
            if following is not None:
                answer.next_cursor = _cursor(name, following)
                break
        return answer

    def _page(self, version: int, name: str, first: int, most: int) -> tuple[Any, int | None]:
        """A topic with `most` of its partitions from `first` on, and the one after them."""
        made = KAFKA_APIS[DESCRIBE_TOPIC_PARTITIONS_KEY].response
        topic_class = made.DescribeTopicPartitionsResponseTopic
        entry = topic_class(
            version=version, name=name, topic_authorized_operations=TOPIC_OPERATIONS
        )
        topic = self._image.topic(name)
        if topic is None:
            invalid = invalid_topic_name(name)
            entry.error_code = INVALID_TOPIC_EXCEPTION if invalid else UNKNOWN_TOPIC_OR_PARTITION
            return entry, None
        entry.topic_id, entry.is_internal = UUID(topic.topic_id), name in INTERNAL_TOPICS
        numbers = sorted(number for number in topic.partitions if number >= first)
        entry.partitions = [
            topic_class.DescribeTopicPartitionsResponsePartition(
                version=version,
                error_code=LEADER_NOT_AVAILABLE if partition.leader < 0 else 0,
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(offline_replicas(self._image, partition)),
            )
            for number, partition in ((n, topic.partitions[n]) for n in numbers[:most])
        ]
        return entry, next(iter(numbers[most:]), None)


def _topic_end(version: int, message: Any) -> bytes:
    """What follows the partitions of a topic."""
    flexible = b"\x00" if version >= FLEXIBLE_FROM else b""
    if version < OPERATIONS_FROM:
        return flexible
    asked = message.include_topic_authorized_operations
    return struct.pack(">i", TOPIC_OPERATIONS if asked else NOT_LISTED) + flexible


def _check_names(version: int, topics: Iterable[Any] | None) -> None:
    """Kafka could not take topics by id, or without a name, from the start.

    Raises:
        WireReply: INVALID_REQUEST, or UNKNOWN_SERVER_ERROR where a broker stumbles over it.
    """
    if version < TOPIC_IDS_FROM or topics is None:
        return
    for topic in topics:
        known = topic_id_of(topic.topic_id) is not None
        if version < _IDS_ASKED_FROM and (known or topic.name is None):
            raise WireReply(INVALID_REQUEST)
        if topic.name is None and not known:
            raise WireReply(UNKNOWN_SERVER_ERROR)


def _check_cursor(message: Any) -> None:
    """A cursor must point at a partition of what is asked for.

    Raises:
        WireReply: INVALID_REQUEST.
    """
    cursor = message.cursor
    if cursor is None:
        return
    names = [topic.name for topic in message.topics]
    if names and cursor.topic_name not in names:
        raise WireReply(
            INVALID_REQUEST,
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
            f"{cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise WireReply(
            INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}",
        )


def _cursor(topic: str, partition: int) -> Any:
    made = KAFKA_APIS[DESCRIBE_TOPIC_PARTITIONS_KEY].response.Cursor
    return made(version=0, topic_name=topic, partition_index=partition)
