"""Configurations that hold throttles, in ZooKeeper: read there, and written with a notification.

The brokers hear of a configuration by the notification, and nobody says when they obey it. Brokers
in reach are asked whether they show a rate; of a topic they say what is written in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.rpc import config_reads
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.config_propagation import wait_until_in_force
from kshunt.backend.admin.rpc.configs import RATE_KEYS, REPLICA_KEYS, Changes, Values
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.zookeeper import config_znodes
from kshunt.backend.admin.zookeeper.session import Session
from kshunt.backend.clock import Clock
from kshunt.backend.error_codes import (
    BROKER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

SHOWN_S: Final = 3.0
"""A read that asks brokers whether they obey a rate waits this long for them."""


class ZooKeeperThrottleConfigs:
    """See `ThrottleConfigs`."""

    def __init__(
        self, session: Session, calls: BrokerCalls, clock: Clock, guard: Callable[[], None]
    ) -> None:
        """`guard` is asked right before anything is written."""
        self._session = session
        self._calls = calls
        self._clock = clock
        self._guard = guard

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        """Also of a broker that is down, if it was ever configured: it obeys when it starts."""
        return await config_znodes.read_brokers(
            self._session, brokers, RATE_KEYS, timeout_s=timeout_s
        )

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        """The topics' throttled replicas; one that does not exist is absent."""
        return await config_znodes.read_topics(
            self._session, topics, REPLICA_KEYS, timeout_s=timeout_s
        )

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        """Each broker's configuration, by itself and all at the same time; never raises for one."""
        known = await self.read_brokers(list(changes), timeout_s=timeout_s)
        results = {
            broker: item_result(BROKER_NOT_AVAILABLE, f"ZooKeeper does not list broker {broker}")
            for broker in changes
            if broker not in known
        }
        wanted = {config_znodes.broker_entity(b): changes[b] for b in changes if b in known}
        written = await self._write(wanted, validate_only=validate_only, timeout_s=timeout_s)
        results |= {b: written[config_znodes.broker_entity(b)] for b in changes if b in known}
        if not validate_only:
            ok = {b: changes[b] for b in changes if results[b].ok}
            shown = partial(
                config_reads.read_brokers, self._calls, keys=RATE_KEYS, timeout_s=SHOWN_S
            )
            await wait_until_in_force(self._clock, ok, shown)
        return {broker: results[broker] for broker in changes}

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """The topics' configurations."""
        known = await self.read_topics(list(changes), timeout_s=timeout_s)
        results = {
            topic: item_result(UNKNOWN_TOPIC_OR_PARTITION, "the cluster has no such topic")
            for topic in changes
            if topic not in known
        }
        wanted = {config_znodes.topic_entity(t): changes[t] for t in changes if t in known}
        written = await self._write(wanted, validate_only=validate_only, timeout_s=timeout_s)
        results |= {t: written[config_znodes.topic_entity(t)] for t in changes if t in known}
        return {topic: results[topic] for topic in changes}

    async def _write(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        if validate_only:
            return dict.fromkeys(changes, OK)
        self._guard()
        found = await together(
            config_znodes.change(self._session, entity, change, timeout_s=timeout_s)
            for entity, change in changes.items()
        )
        return dict(zip(changes, found, strict=True))
