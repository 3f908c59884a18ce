"""Configurations that hold throttles, as brokers tell them and take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kshunt.backend.admin.kafka.sent_changes import result_or_lost
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc import config_reads
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.config_propagation import wait_until_in_force
from kshunt.backend.admin.rpc.configs import (
    BROKER,
    RATE_KEYS,
    REPLICA_KEYS,
    TOPIC,
    Changes,
    Values,
    alter_request,
    altered,
    described,
)
from kshunt.backend.admin.rpc.connections import lane_of
from kshunt.backend.admin.rpc.error_mapping import item_error
from kshunt.backend.admin.rpc.requests import UNANSWERED
from kshunt.backend.clock import Clock
from kshunt.backend.errors import ClusterError, NotSupported

BROKER_WRITE_TIMEOUT_S: Final = 3.0
"""A broker that does not take its configuration by then fails alone."""


class KafkaThrottleConfigs:
    """See `ThrottleConfigs`. What is written shows on the brokers when a call returns."""

    def __init__(self, calls: BrokerCalls, clock: Clock) -> None:
        self._calls = calls
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
        """Each broker's configuration, by itself and all at the same time; never raises for one."""
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
        name = str(broker)

        async def asked() -> ItemResult:
            request = alter_request(BROKER, {name: change}, validate_only=validate_only)
            answer = await self._calls.call(
                broker, request, timeout_s=timeout_s, lane=lane_of(validate_only=validate_only)
            )
            return altered(answer).get(name, UNANSWERED)

        try:
            return await result_or_lost(asked)
        except (ClusterError, NotSupported) as error:
            return item_error(error)

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        results: dict[str, ItemResult] = {}
        for some in config_reads.by_request(list(changes)):
            results.update(
                await self._write_some(
                    {topic: changes[topic] for topic in some}, validate_only, timeout_s
                )
            )
        written = {topic: changes[topic] for topic, result in results.items() if result.ok}
        if not validate_only:
            read = partial(self.read_topics, timeout_s=timeout_s)
            await wait_until_in_force(self._clock, written, read)
        return results

    async def _write_some(
        self, changes: Mapping[str, Changes], validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """In one request; half the time is left to ask again where that may help.

        To write the same again does no harm.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        results = await self._asked(changes, validate_only, timeout_s / 2)
        late = {name: changes[name] for name, result in results.items() if result.retriable}
        if not late:
            return results
        with suppress(ClusterError):
            # Who the controller is by now is learnt from any broker.
            await self._calls.describe(NO_TOPICS, timeout_s=timeout_s / 4)
        left_s = deadline_s - self._clock.monotonic_s()
        return {**results, **await self._asked(late, validate_only, left_s)}

    async def _asked(
        self, changes: Mapping[str, Changes], validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        try:
            answer = await self._calls.ask_controller(
                lambda: alter_request(TOPIC, changes, validate_only=validate_only),
                timeout_s=timeout_s,
                lane=lane_of(validate_only=validate_only),
            )
            results = altered(answer)
        except (ClusterError, NotSupported) as error:
            return dict.fromkeys(changes, item_error(error))
        return {name: results.get(name, UNANSWERED) for name in changes}
