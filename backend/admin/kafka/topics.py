"""Topics described as `kafka-topics` does, created and deleted, and who knows of them.

Changes are small requests over our own connections, each sent once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

from kshunt.backend.admin.kafka import topic_descriptions
from kshunt.backend.admin.kafka.sent_changes import by_controller, only_result
from kshunt.backend.admin.kafka.topic_descriptions import ConfigsRead, Eligible
from kshunt.backend.admin.port.configs import ConfigAdmin
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.port.topics import KnownTopic
from kshunt.backend.admin.rpc import config_reads, requests
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.connections import lane_of
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.topics.descriptions import TopicsDescribed
from kshunt.backend.errors import BrokerUnreachable, NotAuthorized, NotSupported
from kshunt.backend.wire.api_keys import DESCRIBE_TOPIC_PARTITIONS_KEY
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

CONFIGS_PER_REQUEST: Final = 200
"""Topics whose whole configurations one request asks for: each has some 35 keys."""
_CHOSEN: Final = -1
"""For the number of partitions and replicas, where they are listed."""
_NAMES_UNTIL: Final = 5
"""From version 6 on, DeleteTopics has topic ids."""


class KafkaTopics:
    """See `TopicAdmin`."""

    def __init__(
        self, calls: BrokerCalls, configs: ConfigAdmin, reassignments: ReassignmentAdmin
    ) -> None:
        self._calls = calls
        self._configs = configs
        self._reassignments = reassignments

    async def describe(
        self,
        topics: Sequence[str] | None = None,
        *,
        configs: bool,
        min_isr: bool,
        timeout_s: float,
    ) -> TopicsDescribed:
        """See `TopicAdmin.describe`."""
        answer = await self._calls.ask_any(
            lambda: requests.metadata_request(topics), timeout_s=timeout_s
        )
        read = await asyncio.to_thread(topic_descriptions.read_topics, answer)
        moving = await self._moving(timeout_s)
        names = [t for t in read.state.assignment.topics if t not in read.state.topic_errors]
        found = await self._whole_configs(names, timeout_s) if configs else {}
        least: Mapping[str, int] = {}
        if min_isr and not configs:
            least = await self._configs.min_isr(names, timeout_s=timeout_s)
        eligible = await self._eligible(names, timeout_s)
        described = await asyncio.to_thread(
            topic_descriptions.described_topics, read, moving, found, least, eligible
        )
        return TopicsDescribed(described, frozenset(read.state.brokers))

    async def _moving(self, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        """What moves; nothing where we may not know, as in Kafka's tool."""
        try:
            return await self._reassignments.ongoing(timeout_s=timeout_s)
        except (NotAuthorized, NotSupported):
            return {}

    async def _whole_configs(
        self, topics: Sequence[str], timeout_s: float
    ) -> Mapping[str, ConfigsRead]:
        found: dict[str, ConfigsRead] = {}
        # One after the other: they are long, and others ask the same brokers.
        for start in range(0, len(topics), CONFIGS_PER_REQUEST):
            found |= await config_reads.read_some(
                self._calls,
                topics[start : start + CONFIGS_PER_REQUEST],
                None,
                topic_descriptions.read_configs,
                timeout_s=timeout_s,
            )
        return found

    async def _eligible(self, topics: Sequence[str], timeout_s: float) -> Eligible:
        """The eligible leader replicas; nothing where brokers do not tell (before Kafka 3.7)."""
        key = DESCRIBE_TOPIC_PARTITIONS_KEY
        if not topics or not await self._calls.has(key, timeout_s=timeout_s):
            return {}
        names = sorted(topics)
        found: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        cursor = None
        while True:
            request = partial(topic_descriptions.eligible_request, names, cursor)
            answer = await self._calls.ask_controller(request, timeout_s=timeout_s)
            some, following = await asyncio.to_thread(topic_descriptions.read_eligible, answer)
            found.update(some)
            if following is None or following == cursor:
                return found
            cursor = following
            # A cursor stands at one of the topics that are asked for, and they come by name.
            names = [name for name in names if name >= cursor[0]]

    async def create(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> ItemResult:
        """See `TopicAdmin.create`."""
        of_topic = CreateTopicsRequest.CreatableTopic
        placed = [(number, list(brokers)) for number, brokers in sorted(assignment.items())]
        topic = of_topic(
            name=name,
            num_partitions=_CHOSEN,
            replication_factor=_CHOSEN,
            assignments=placed,
            configs=sorted(configs.items()),
        )
        message = CreateTopicsRequest(
            topics=[topic], timeout_ms=_ms(timeout_s), validate_only=validate_only
        )

        def read(answer: RawAnswer) -> ItemResult:
            return only_result(decode_message(CreateTopicsResponse, answer).topics)

        lane = lane_of(validate_only=validate_only)
        return await by_controller(
            self._calls, lambda: RawRequest.of(message), read, timeout_s, lane
        )

    async def delete(self, name: str, *, topic_id: str = "", timeout_s: float) -> ItemResult:
        """See `TopicAdmin.delete`."""

        def request() -> RawRequest:
            return _delete_request(name, topic_id, timeout_s)

        def read(answer: RawAnswer) -> ItemResult:
            # One was asked for; by its id it may come back without its name.
            return only_result(decode_message(DeleteTopicsResponse, answer).responses)

        return await by_controller(self._calls, request, read, timeout_s)

    async def known(self, topic: str, *, timeout_s: float) -> Mapping[int, KnownTopic | None]:
        """See `TopicAdmin.known`."""
        brokers = sorted((await self._calls.describe(NO_TOPICS, timeout_s=timeout_s)).brokers)

        async def ask(broker: int) -> KnownTopic | None:
            request = requests.topic_request(topic)
            try:
                answer = await self._calls.call(broker, request, timeout_s=timeout_s)
            except BrokerUnreachable:
                return None
            entry = await asyncio.to_thread(requests.topic_entry, answer)
            if entry is None:
                return KnownTopic("", 0)
            return KnownTopic(entry.topic_id.hex if entry.topic_id else "", len(entry.partitions))

        return dict(zip(brokers, await together(map(ask, brokers)), strict=True))


def _delete_request(name: str, topic_id: str, timeout_s: float) -> RawRequest:
    if not topic_id:
        message = DeleteTopicsRequest(topic_names=[name], timeout_ms=_ms(timeout_s))
        return RawRequest.of(message, min_version=1, max_version=_NAMES_UNTIL)
    state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=UUID(topic_id))
    message = DeleteTopicsRequest(topics=[state], timeout_ms=_ms(timeout_s))
    return RawRequest.of(message, min_version=_NAMES_UNTIL + 1)


def _ms(timeout_s: float) -> int:
    return int(timeout_s * 1000)
