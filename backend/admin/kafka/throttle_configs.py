"""Configurations that hold throttles, as brokers tell them and take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from kshunt.backend.admin.kafka.config_writer import ConfigWriter
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc import config_reads
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.config_propagation import wait_until_in_force
from kshunt.backend.admin.rpc.configs import RATE_KEYS, REPLICA_KEYS, Changes, Values, described
from kshunt.backend.admin.rpc.error_mapping import item_error
from kshunt.backend.clock import Clock
from kshunt.backend.errors import ClusterError

BROKER_WRITE_TIMEOUT_S: Final = 3.0
"""A broker that does not take its configuration by then fails alone."""


class KafkaThrottleConfigs:
    """See `ThrottleConfigs`. What is written shows on the brokers when a call returns."""

    def __init__(self, calls: BrokerCalls, writer: ConfigWriter, clock: Clock) -> None:
        self._calls = calls
        self._writer = writer
        self._clock = clock

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """The brokers' rates; one that does not answer is absent."""
        return await config_reads.read_brokers(self._calls, brokers, RATE_KEYS, timeout_s=timeout_s)

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent."""
        return await config_reads.read_topics(
            self._calls, topics, REPLICA_KEYS, described, timeout_s=timeout_s
        )

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at once; never raises for one."""
        if not changes:
            return {}
        await self._calls.describe(NO_TOPICS, timeout_s=timeout_s)
        deadline_s = min(timeout_s, BROKER_WRITE_TIMEOUT_S)
        found = await together(
            self._write_broker(broker, change, validate_only, deadline_s)
            for broker, change in changes.items()
        )
        results = dict(zip(changes, found, strict=True))
        written = {broker: changes[broker] for broker, result in results.items() if result.ok}
        if not validate_only:
            read = partial(self.read_brokers, timeout_s=deadline_s)
            await wait_until_in_force(self._clock, written, read)
        return results

    async def _write_broker(
        self, broker: int, change: Changes, validate_only: bool, timeout_s: float
    ) -> ItemResult:
        try:
            # librdkafka would wait for a broker that refuses connections; a question to it first
            # tells at once.
            await config_reads.read_broker(self._calls, broker, RATE_KEYS, timeout_s=timeout_s)
        except ClusterError as error:
            return item_error(error)
        return await self._writer.alter_broker(
            broker, change, validate_only=validate_only, timeout_s=timeout_s
        )

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        results: dict[str, ItemResult] = {}
        for some in config_reads.by_request(list(changes)):
            results.update(
                await self._writer.alter_topics(
                    {topic: changes[topic] for topic in some},
                    validate_only=validate_only,
                    timeout_s=timeout_s,
                )
            )
        written = {topic: changes[topic] for topic, result in results.items() if result.ok}
        if not validate_only:
            read = partial(self.read_topics, timeout_s=timeout_s)
            await wait_until_in_force(self._clock, written, read)
        return results
