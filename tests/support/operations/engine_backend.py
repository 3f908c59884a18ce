"""Backends of one simulated world: the engine and its verbs, where any call may fail.

`Door` is a `ClusterAdmin` that asks the embedded cluster's controller and its brokers directly,
and composes the verbs as for any Kafka (`kshunt.backend.admin.kips`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np

from kshunt.backend.admin.kips.reassignment.checks import check_plan, fit_part, with_refused
from kshunt.backend.admin.kips.reassignment.emulated import EmulatedReassignment
from kshunt.backend.admin.kips.throttles.kafka_throttles import KafkaThrottles
from kshunt.backend.admin.port.configs import ConfigAdmin
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc import configs
from kshunt.backend.admin.rpc.configs import Changes, ConfigValue, Values
from kshunt.backend.admin.rpc.error_mapping import BrokerDown, item_error, raise_for_code
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.config_names import MIN_ISR
from kshunt.backend.domain.cluster.metadata import Broker, OngoingReassignment, TopicPartition
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.error_codes import CLUSTER_AUTHORIZATION_FAILED
from kshunt.backend.errors import (
    BrokerUnreachable,
    ClusterUnreachable,
    JournalFenced,
    JournalUnavailable,
    NotActive,
)
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.engine import Engine
from kshunt.backend.operations.journal.entries import Body
from kshunt.backend.operations.journal.port import check_append
from kshunt.backend.operations.operation_control import OperationControl
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.forecast_keeping import ForecastKeeper
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.reassignment.starting import Reassignments
from kshunt.backend.operations.throttles.changes import ThrottleChanges
from kshunt.backend.operations.throttles.repair import ThrottleRepair
from tests.support.operations.engine_world import (
    BROKER,
    CLUSTER_ID,
    TOPIC,
    Crash,
    Effect,
    Fault,
    Process,
    World,
)
from tests.support.partial_cluster import AbsentSubjects

T = TypeVar("T")

TIMEOUT_S: Final = 10.0


class Backend(Process):
    """One process of ours: it knows what the journal says, until it dies."""

    def __init__(self, world: World, name: str = "one") -> None:
        self.world = world
        self.name = name
        self.state = world.state
        """What it knows to be committed."""
        self.admin = Door(self)
        self.registry = Registry(world.clock, lambda operation: None, self, name)
        self.registry.load(world.state)
        world.writer = self
        context = Context(self.admin, self.registry, world.clock, TIMEOUT_S, lambda: world.latest())
        runner, cancellations = ReassignmentRunner(context), Cancellations(context)
        self.engine = Engine(context, runner, cancellations)
        self.forecasts = ForecastKeeper(context)
        self.reassignments = Reassignments(context, runner, cancellations)
        self.operation_control = OperationControl(context, self.reassignments, runner)
        self.throttles = ThrottleChanges(context)
        self.mending = ThrottleRepair(context)

    def require(self) -> None:
        """As `JournalWriter.require`."""
        if not self.alive:
            raise Crash
        if self.world.writer is not self:
            raise NotActive("Another backend is active. Nothing was changed.")

    async def wait_while_paused(self) -> None:
        """It is never paused."""

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `JournalWriter.append`."""
        world = self.world
        fault = await world.at(self, Fault.REFUSED, Fault.IN_DOUBT, Fault.DIES_AFTER)
        if world.writer is not self:
            raise JournalFenced("Another backend is active. Nothing was written.")
        self.state = world.state
        check_append(world.state, entries, replacing)
        if fault is Fault.REFUSED:
            raise JournalUnavailable("The journal did not answer. Nothing was written.")
        world.commit(entries, self.name)
        if fault is Fault.DIES_AFTER:
            self.alive = False
            raise Crash
        if fault is Fault.IN_DOUBT:
            raise JournalUnavailable("The journal's answer was lost.", written=None)
        self.state = world.state


class Reach:
    """How one backend reaches the cluster, where any call may fail."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._world = backend.world

    async def _read(self, what: Callable[[], T]) -> T:
        fault = await self._world.at(self._backend, Fault.REFUSED, Fault.LOST)
        if fault is not None:
            raise ClusterUnreachable("No broker answered in time.")
        return what()

    async def _write(self, what: Callable[[], T]) -> T:
        """Do something to the cluster.

        Raises:
            BrokerUnreachable: it was done or not.
        """
        ways = (Fault.REFUSED, Fault.LOST, Fault.DIES_AFTER, Fault.FOREIGN)
        fault = await self._world.at(self._backend, *ways)
        if fault is Fault.REFUSED:
            raise BrokerUnreachable("The broker did not answer in time.")
        answer = what()
        if fault is Fault.DIES_AFTER:
            self._backend.alive = False
            raise Crash
        if fault is Fault.LOST:
            raise BrokerUnreachable("The broker did not answer in time.")
        return answer


class DescribedWorld(Reach):
    """See `DescribedCluster`."""

    async def describe(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> ClusterState:
        return await self._read(lambda: self._described(topics))

    def _described(self, topics: Sequence[str] | None) -> ClusterState:
        image = self._world.cluster.image
        names = sorted(name for name in image.topics if topics is None or name in topics)
        rows = [
            (index, number, broker, place, found.leader, broker in found.isr,
             not image.is_online(broker, found.log_dir(broker)))
            for index, name in enumerate(names)
            for number, found in sorted(image.topics[name].partitions.items())
            for place, broker in enumerate(found.replicas)
        ]  # fmt: skip
        types = (np.int32, np.int32, np.int32, np.int16, np.int32, np.bool_, np.bool_)
        columns: list[Any] = [
            np.array([row[at] for row in rows], kind) for at, kind in enumerate(types)
        ]
        brokers = {b.id: Broker(b.id, b.host, b.port) for b in image.brokers.values()}
        up = {broker: brokers[broker] for broker in self._world.live}
        return ClusterState(CLUSTER_ID, image.controller, up, Assignment(tuple(names), *columns))


class WorldConfigs(Reach):
    """See `ConfigAdmin`, of which one reading is here."""

    async def min_isr(
        self, topics: Sequence[str] | None = None, *, timeout_s: float
    ) -> Mapping[str, int]:
        image = self._world.cluster.image
        names = image.topics if topics is None else topics
        return await self._read(
            lambda: {n: int(image.config(ResourceType.TOPIC, n, MIN_ISR).value or 1) for n in names}
        )


class WorldThrottleConfigs(Reach):
    """See `ThrottleConfigs`."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._seen: dict[tuple[int, str, str], str | None] = {}

    async def read_brokers(
        self, brokers: Sequence[int], *, timeout_s: float
    ) -> Mapping[int, Values]:
        try:
            up = [broker for broker in brokers if broker not in self._world.down]
            return await self._read(
                lambda: {b: self._values(BROKER, str(b), configs.RATE_KEYS) for b in up}
            )
        except ClusterUnreachable:
            return {}

    async def read_topics(self, topics: Sequence[str], *, timeout_s: float) -> Mapping[str, Values]:
        there = [topic for topic in topics if self._world.cluster.image.topic(topic) is not None]
        return await self._read(
            lambda: {t: self._values(TOPIC, t, configs.REPLICA_KEYS) for t in there}
        )

    def _values(self, kind: int, name: str, keys: Iterable[str]) -> Values:
        found = {}
        for key in keys:
            one = self._world.cluster.image.config(ResourceType(kind), name, key)
            self._seen[kind, name, key] = self._world.config(kind, name, key)
            if one.value:
                found[key] = ConfigValue(one.value, one.source.name)
        return found

    async def write_brokers(
        self, changes: Mapping[int, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[int, ItemResult]:
        if not changes:
            return {}
        await self._read(lambda: None)
        results = {}
        for broker, change in changes.items():
            if broker in self._world.down:
                results[broker] = item_error(BrokerDown(f"Broker {broker} is down."))
            elif validate_only:
                results[broker] = OK
            else:
                results[broker] = await self._set(BROKER, {str(broker): change})
        return results

    async def write_topics(
        self, changes: Mapping[str, Changes], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        if not changes or validate_only:
            return dict.fromkeys(changes, OK)
        return dict.fromkeys(changes, await self._set(TOPIC, changes))

    async def _set(self, kind: int, changes: Mapping[str, Changes]) -> ItemResult:
        try:
            return await self._write(lambda: self._set_now(kind, changes))
        except BrokerUnreachable as error:
            return item_error(error)

    def _set_now(self, kind: int, changes: Mapping[str, Changes]) -> ItemResult:
        for name, change in changes.items():
            for key, value in change.items():
                old, seen = self._world.config(kind, name, key), self._seen.get((kind, name, key))
                if old != value:
                    self._world.effected(Effect(kind, name, key, old, value, seen))
                    self._world.set(kind, name, key, value)
        return OK


class WorldReassignments(Reach):
    """See `ReassignmentAdmin`; moves are composed as for any Kafka."""

    def __init__(
        self, backend: Backend, cluster: DescribedCluster, throttle_configs: ThrottleConfigs
    ) -> None:
        super().__init__(backend)
        no_logs = cast(LogAdmin, None)
        self._emulated = EmulatedReassignment(cluster, throttle_configs, self, no_logs)

    async def ongoing(self, *, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        return await self._read(lambda: self._world.ongoing)

    async def accepts_moves(self, *, timeout_s: float) -> str:
        return ""

    async def reassign(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        situation = await self._emulated.situation(assignments, log_dirs, options.timeout_s)
        checked = check_plan(assignments, log_dirs, options, situation)
        fit, dirs = fit_part(assignments, log_dirs, checked)
        if options.validate_only or not fit:
            return ReassignOutcome(checked, {}, {}, {})
        started = await self._emulated.start(situation, checked, fit, options, dirs)
        return with_refused(started, checked)

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        fault = await self._world.at(self._backend, Fault.DENIED)
        denied = CLUSTER_AUTHORIZATION_FAILED if fault is Fault.DENIED else 0
        raise_for_code(self._world.whole_error or denied, None, "Reassigning partitions")
        return await self._write(lambda: self._alter_now(targets))

    def _alter_now(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> PartitionResults:
        for partition, target in targets.items():
            wanted = None if target is None else str(list(target))
            self._world.effected(Effect(0, str(partition), "", None, wanted))
        return self._world.alter(targets)


class Door(AbsentSubjects):
    """The cluster as one backend reaches it; see `ClusterAdmin`."""

    def __init__(self, backend: Backend) -> None:
        self.cluster = DescribedWorld(backend)
        self.configs = cast(ConfigAdmin, WorldConfigs(backend))
        throttle_configs = WorldThrottleConfigs(backend)
        self.throttles = KafkaThrottles(self.cluster, throttle_configs)
        self.reassignments = WorldReassignments(backend, self.cluster, throttle_configs)

    async def close(self) -> None:
        """Nothing is held."""
