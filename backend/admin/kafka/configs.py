"""Configurations of topics, as brokers have them in force, and changed with the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from kshunt.backend.admin.kafka.sent_changes import by_controller
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc import config_reads, configs
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.requests import UNANSWERED
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.wire.raw_request import RawAnswer

OWN: Final = "DYNAMIC_TOPIC_CONFIG"
"""The source of what is set on a topic itself."""


class KafkaConfigs:
    """See `ConfigAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def describe(self, topic: str, *, timeout_s: float) -> tuple[TopicConfig, ...] | None:
        """See `ConfigAdmin.describe`."""
        read = partial(configs.topic_configs, topic=topic)
        return await config_reads.read_some(self._calls, [topic], None, read, timeout_s=timeout_s)

    async def overrides(self, topic: str, *, timeout_s: float) -> Mapping[str, str] | None:
        """See `ConfigAdmin.overrides`."""
        found = await self.describe(topic, timeout_s=timeout_s)
        if found is None:
            return None
        return {one.name: one.value or "" for one in found if one.source == OWN}

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        """See `ConfigAdmin.min_isr`."""
        if topics is None:
            topics = (await self._calls.describe(timeout_s=timeout_s)).assignment.topics
        return await config_reads.read_topics(
            self._calls, topics, configs.MIN_ISR_KEYS, configs.min_isr, timeout_s=timeout_s
        )

    async def alter(
        self, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
    ) -> ItemResult:
        """See `ConfigAdmin.alter`."""
        request = partial(
            configs.alter_request, configs.TOPIC, {topic: changes}, validate_only=False
        )

        def read(answer: RawAnswer) -> ItemResult:
            return configs.altered(answer).get(topic, UNANSWERED)

        return await by_controller(self._calls, request, read, timeout_s)

    async def in_force(
        self, topic: str, names: Sequence[str], brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """See `ConfigAdmin.in_force`."""
        wanted = list(dict.fromkeys(brokers))

        async def ask(broker: int) -> Mapping[str, str] | None:
            request = configs.describe_request(configs.TOPIC, [topic], names)
            try:
                answer = await self._calls.call(broker, request, timeout_s=timeout_s)
            except BrokerUnreachable:
                return None
            found = configs.topic_configs(answer, topic)
            return None if found is None else {one.name: one.value or "" for one in found}

        said = zip(wanted, await together(map(ask, wanted)), strict=True)
        return {broker: values for broker, values in said if values is not None}
