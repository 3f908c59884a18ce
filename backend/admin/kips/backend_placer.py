"""Owns the placer of a backend (KIP-660): what it learns about a real cluster, and how it is asked.

Where a cluster has no placer, its controller takes replica lists as they are sent to it. So they
are sent: a caller that needs lists asks here.

Goals
    The caller gets valid lists, or the placer's words for why there are none. The event loop
    continues meanwhile.
Constraints
    - What costs a request for each broker is read only for a placer that wants to know it.
    - A Kafka before 4.0 does not report brokers that are registered and not up: new replicas then
      go to those that are up.
    - The principal is that of the credential which the request came with. Without one it is
      unknown: the name in a request is only said, and proves nothing.
Algorithm
    1. Read the brokers and, for a placer that goes by load, who holds and leads how much, and how
       full disks are. Traffic stays unknown: what consumers read is measured nowhere.
    2. Ask in a thread (`kshunt.backend.placement.placer_calls`), topic by topic. What was placed
       counts as load for the next topic.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import Caller
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import decode_message, raise_for_code
from kshunt.backend.admin.security.client_properties import parse_properties
from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.errors import ClusterError, ConfigError, NotAuthorized, NotSupported
from kshunt.backend.placement.optional_interfaces import ClusterAware
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    ReplicaPlacer,
    UsableBroker,
    load_placer,
)
from kshunt.backend.placement.placer_calls import DEADLINE_S, PlacementRequest, place_with
from kshunt.backend.settings import PlacerSettings
from kshunt.backend.wire.api_keys import DESCRIBE_CLUSTER_KEY
from kshunt.backend.wire.raw_request import RawRequest

_TELLS_FENCED: Final = 2
"""From this version on DescribeCluster reports fenced brokers (KIP-1073, Kafka 4.0)."""

Replicas: TypeAlias = tuple[int, ...]


class BackendPlacer:
    """See the module's text."""

    def __init__(
        self, name: str, placer: ReplicaPlacer, calls: BrokerCalls, logs: LogAdmin
    ) -> None:
        self.name = name
        self._placer = placer
        self._calls = calls
        self._logs = logs

    @property
    def ignores_racks(self) -> bool:
        """True where the placer declares that it does not spread replicas over racks."""
        return bool(getattr(self._placer, "ignores_racks", False))

    async def view(self, *, timeout_s: float) -> PlacementView:
        """The cluster at this moment, to place on.

        Raises:
            ClusterUnreachable, BrokerUnreachable: it did not answer in time.
        """
        return await self._view(await registered(self._calls, timeout_s), timeout_s)

    async def new_topic(
        self, topic: str, partitions: int, replicas: int, *, timeout_s: float
    ) -> tuple[Replicas, ...]:
        """The replicas of each partition of a topic that is to be created, preferred leader first.

        Raises:
            InvalidReplicationFactor, ReplicaPlacementFailed: with the placer's own words.
            ClusterUnreachable, BrokerUnreachable: the cluster did not answer in time.
        """
        view = await self.view(timeout_s=timeout_s)
        return tuple(await asyncio.to_thread(view.place, topic, range(partitions), replicas))

    def from_threads(self, timeout_s: float) -> Callable[[str, int, int], tuple[Replicas, ...]]:
        """`new_topic` for other threads than that of this event loop; they wait for it."""
        loop = asyncio.get_running_loop()

        def new_topic(topic: str, partitions: int, replicas: int) -> tuple[Replicas, ...]:
            asked = self.new_topic(topic, partitions, replicas, timeout_s=timeout_s)
            return asyncio.run_coroutine_threadsafe(asked, loop).result()

        return new_topic

    async def proposal(
        self,
        current: Mapping[TopicPartition, Sequence[int]],
        brokers: Sequence[Broker],
        *,
        timeout_s: float,
    ) -> dict[TopicPartition, Replicas]:
        """A new home on these brokers for every partition of `current`, topic by topic.

        A topic keeps the replication factor of its lowest partition, as in Kafka's tool. What the
        topics hold by now counts for nobody: all of it is placed anew.

        Raises:
            InvalidReplicationFactor, ReplicaPlacementFailed: with the topic and the placer's words.
            ClusterUnreachable: the cluster did not answer in time.
        """
        usable = [UsableBroker(one.id, one.rack, fenced=False) for one in brokers]
        view = await self._view(usable, timeout_s, {topic for topic, _ in current})
        return await asyncio.to_thread(_proposed, view, current)

    async def _view(
        self, brokers: Sequence[UsableBroker], timeout_s: float, placed_anew: Collection[str] = ()
    ) -> PlacementView:
        loads = None
        if isinstance(self._placer, ClusterAware):
            loads = await self._loads(brokers, placed_anew, timeout_s)
        deadline_s = min(DEADLINE_S, timeout_s)
        return PlacementView(
            self.name, self._placer, brokers, loads, deadline_s, principal_of(CURRENT_CALLER.get())
        )

    async def _loads(
        self, brokers: Sequence[UsableBroker], placed_anew: Collection[str], timeout_s: float
    ) -> BrokerLoads:
        state = await self._calls.describe(timeout_s=timeout_s)
        up = [broker.id for broker in brokers if not broker.fenced]
        disks = await together(self._disks(broker, timeout_s) for broker in up)
        ids = [broker.id for broker in brokers]
        return loads_of(ids, state.assignment, dict(zip(up, disks, strict=True)), placed_anew)

    async def _disks(self, broker: int, timeout_s: float) -> tuple[LogDir, ...]:
        """A broker's log directories; none where it does not tell."""
        try:
            return (await self._logs.dirs(broker, columns_of(()), timeout_s=timeout_s)).dirs
        except (ClusterError, NotSupported):
            return ()


@dataclass(slots=True)
class PlacementView:
    """A cluster as a placer learns about it, and what the placer has placed there since."""

    name: str
    placer: ReplicaPlacer
    brokers: Sequence[UsableBroker]
    loads: BrokerLoads | None
    """None for a placer that does not go by them."""
    deadline_s: float
    principal: str | None = None
    """Who asks, as Kafka writes it: `User:alice`. None where no credential says it."""

    def place(
        self, topic: str, numbers: range, replicas: int, existing: Sequence[Replicas] = ()
    ) -> list[Replicas]:
        """The replicas of these partitions. It blocks until the placer answers or is cut off.

        `existing` are the replica lists of the partitions that the topic has, by number.

        Raises:
            InvalidReplicationFactor, ReplicaPlacementFailed: with the placer's own words.
        """
        request = PlacementRequest(
            *(numbers.start, len(numbers), replicas, self.brokers),
            topic=topic,
            principal=self.principal,
            loads=self.loads,
            existing=existing,
        )
        found = place_with(self.placer, self.name, request, deadline_s=self.deadline_s)
        if self.loads is not None:
            self.loads = with_placed(self.loads, found)
        return found


def principal_of(caller: Caller) -> str | None:
    """A caller as Kafka writes principals; None for one without a credential."""
    return f"User:{caller.name}" if caller.name else None


def load_backend_placer(
    settings: PlacerSettings, calls: BrokerCalls, logs: LogAdmin
) -> BackendPlacer | None:
    """What asks the placer that is named, which is loaded; None where none is.

    Raises:
        ConfigError: it cannot be loaded, or its file cannot be read.
    """
    if not settings.name:
        return None
    configs = _configs(settings.config)
    return BackendPlacer(settings.name, load_placer(settings.name, configs), calls, logs)


def _configs(path: Path | None) -> Mapping[str, str]:
    if path is None:
        return {}
    try:
        # As brokers read it: Latin-1, and \\u for the rest.
        return parse_properties(path.read_text(encoding="latin-1"))
    except OSError as error:
        raise ConfigError(
            f"The placer's configuration {path} cannot be read: {error.strerror}."
        ) from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", advice=error.advice) from None


def _proposed(
    view: PlacementView, current: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, Replicas]:
    proposed: dict[TopicPartition, Replicas] = {}
    for topic, found in groupby(sorted(current), key=lambda partition: partition.topic):
        partitions = list(found)
        try:
            lists = view.place(topic, range(len(partitions)), len(current[partitions[0]]))
        except (InvalidReplicationFactor, ReplicaPlacementFailed) as refused:
            words = f"Topic {topic}: {refused.message}"
            raise type(refused)(words, advice=refused.advice) from refused
        proposed.update(zip(partitions, lists, strict=True))
    return proposed


# What a placer is told


async def registered(calls: BrokerCalls, timeout_s: float) -> list[UsableBroker]:
    """Every registered broker by id; only those that are up where the cluster reports no others.

    Raises:
        ClusterUnreachable, BrokerUnreachable: it did not answer in time.
    """
    if await calls.has(DESCRIBE_CLUSTER_KEY, version=_TELLS_FENCED, timeout_s=timeout_s):
        try:
            return await _described(calls, timeout_s)
        except (NotAuthorized, NotSupported):
            pass
    state = await calls.describe(NO_TOPICS, timeout_s=timeout_s)
    return [UsableBroker(one.id, one.rack, False) for _, one in sorted(state.brokers.items())]


async def _described(calls: BrokerCalls, timeout_s: float) -> list[UsableBroker]:
    message = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    answer = await calls.ask_controller(
        lambda: RawRequest.of(message, min_version=_TELLS_FENCED), timeout_s=timeout_s
    )
    found = decode_message(DescribeClusterResponse, answer)
    raise_for_code(found.error_code, found.error_message, "Describing the cluster")
    usable = [UsableBroker(one.broker_id, one.rack, bool(one.is_fenced)) for one in found.brokers]
    return sorted(usable, key=lambda broker: broker.id)


def loads_of(
    brokers: Sequence[int],
    assignment: Assignment,
    disks: Mapping[int, Sequence[LogDir]],
    placed_anew: Collection[str] = (),
) -> BrokerLoads:
    """What is known of the brokers.

    Args:
        brokers: Their ids.
        assignment: Of the whole cluster.
        disks: Log directories by broker, as far as brokers told.
        placed_anew: Topics whose replicas do not count.
    """
    anew = [index for index, topic in enumerate(assignment.topics) if topic in placed_anew]
    counts = ~np.isin(assignment.topic_index, anew)
    replicas = Counter(assignment.broker[counts].tolist())
    leaders = Counter(assignment.leader[counts & (assignment.position == 0)].tolist())
    found = {}
    for broker in brokers:
        used, total = _volumes(disks.get(broker, ()))
        found[broker] = BrokerLoad(broker, used, total, replicas[broker], leaders[broker])
    return BrokerLoads(found)


def _volumes(dirs: Sequence[LogDir]) -> tuple[int | None, int | None]:
    """Bytes used and in all; None where a directory that works does not say (before Kafka 3.3)."""
    working = [one for one in dirs if one.error is None]
    if not working or any(min(one.total_bytes, one.usable_bytes) < 0 for one in working):
        return None, None
    total = sum(one.total_bytes for one in working)
    return total - sum(one.usable_bytes for one in working), total


def with_placed(loads: BrokerLoads, lists: Sequence[Replicas]) -> BrokerLoads:
    """The loads once these replicas are there; how large they will be is not known."""
    replicas = Counter(broker for one in lists for broker in one)
    leaders = Counter(one[0] for one in lists)
    found = dict(loads.brokers)
    for broker, more in replicas.items():
        before = loads.of(broker)
        found[broker] = replace(
            before,
            replicas=None if before.replicas is None else before.replicas + more,
            leaders=None if before.leaders is None else before.leaders + leaders[broker],
        )
    return BrokerLoads(found)
