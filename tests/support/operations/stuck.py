"""Snapshots of an embedded core without sockets, as the sampler would make them, and diagnoses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.metadata import (
    Broker,
    LogDir,
    OngoingReassignment,
    TopicPartition,
)
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, CauseText, RateNeed, Stuck
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.data.data_plane import moves_between_dirs
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.telemetry.sampling import replica_lags
from kshunt.backend.telemetry.sampling.catch_up_rates import CatchUpRates
from kshunt.backend.telemetry.stuck.diagnosis import AdvanceWatch, Diagnosis, Replica, diagnose
from kshunt.backend.telemetry.stuck.evidence import explain

SWEEP_TICKS = 10
Causes = dict[tuple[str, int, int], Cause]
"""By topic, partition and broker."""


class Observer:
    """Looks at a core once a second of its time: what moves always, the rest by sweeps."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.ticks = 0
        self._index: replica_lags.RowIndex | None = None
        self._observed = replica_lags.nothing_observed(0)
        self._answered: dict[int, int] = {}
        self._rates, self._watch = CatchUpRates(), AdvanceWatch()
        self._paths: dict[str, int] = {}

    def tick(self) -> Diagnosis:
        """A second passes, and brokers are asked."""
        self.core.advance(self.core.now_ms + 1_000)
        self.ticks += 1
        snapshot = self._snapshot()
        moves: list[Replica] = [
            (TopicPartition(held.topic, held.number), self._broker_of(row))
            for held, row in moves_between_dirs(self.core.plane)
        ]
        return diagnose(snapshot, self._watch.update(snapshot), moves)

    def run(self, seconds: int) -> Diagnosis:
        """Tick once for each second; returns the diagnosis of the last tick."""
        for _ in range(seconds - 1):
            self.tick()
        return self.tick()

    def until(self, goal: Callable[[Causes], bool], seconds: int) -> Diagnosis:
        """Ticks until the causes are as wanted."""
        found: Causes = {}
        for _ in range(seconds):
            diagnosis = self.tick()
            found = causes_of(diagnosis)
            if goal(found):
                return diagnosis
        raise AssertionError(f"after {seconds} s there are still {found}")

    def _broker_of(self, row: int) -> int:
        return self.core.plane.broker_id(int(self.core.plane.replication.replicas.broker[row]))

    def _snapshot(self) -> Snapshot:
        image, plane, now_ms = self.core.image, self.core.plane, self.core.now_ms
        index = replica_lags.RowIndex(_assignment(self.core))
        if self._index is not None:
            self._observed = replica_lags.carry(self._index, self._observed, index)
        else:
            self._observed = replica_lags.nothing_observed(len(index.assignment))
        self._index = index
        live = {b.id for b in image.brokers.values() if not b.fenced}
        self._observe(index)
        silent = frozenset(broker for broker in live if not plane.is_up(broker))
        self._answered.update({b: now_ms for b in live if plane.is_up(b)})
        throttles, ongoing = _throttles(self.core), _ongoing(self.core)
        rows = replica_lags.replicas(index, self._observed, ongoing, throttles, silent)
        statuses = {
            broker: BrokerStatus(
                Broker(broker, "127.0.0.1" if broker in live else "", 9),
                self._answered.get(broker),
                stale=broker in silent or broker not in live,
            )
            for broker in image.brokers
        }
        return Snapshot(
            version=self.ticks,
            taken_ms=now_ms,
            cluster_id="c",
            controller=image.controller,
            topics=index.assignment.topics,
            replicas=self._rates.update(index, rows),
            brokers=statuses,
            throttles=throttles,
            log_dirs=tuple(self._log_dirs(live - silent)),
            log_dir_paths=tuple(self._paths),
        )

    def _log_dirs(self, brokers: Iterable[int]) -> Iterable[LogDir]:
        plane = self.core.plane
        for broker in sorted(brokers):
            state, volumes = self.core.image.brokers[broker], plane.dir_volumes(broker)
            for path in state.log_dirs:
                self._paths.setdefault(path, len(self._paths))
                if path in state.offline_dirs:
                    yield LogDir(broker, path, error="KAFKA_STORAGE_ERROR")
                else:
                    yield LogDir(broker, path, *volumes[plane.dir_number(broker, path)])

    def _observe(self, index: replica_lags.RowIndex) -> None:
        """What brokers that are due, and answer, say of their replicas."""
        plane, observed, assignment = self.core.plane, self._observed, index.assignment
        sizes, ends = plane.replication.sizes(), plane.replication.log_end_offsets()
        for row in range(len(assignment)):
            broker = int(assignment.broker[row])
            topic = assignment.topics[int(assignment.topic_index[row])]
            number = int(assignment.partition[row])
            state = self.core.image.partition(topic, number)
            assert state is not None
            due = state.reassigning or (self.ticks + broker) % SWEEP_TICKS == 0
            held = plane.named(topic, number)
            if not due or held is None or not plane.is_up(broker):
                continue
            place, path = held.replicas.get(broker), state.log_dir(broker)
            there = place is not None and self.core.image.is_online(broker, path)
            observed.offset_ms[row] = observed.size_ms[row] = self.core.now_ms
            observed.log_end_offset[row] = ends[place] if there else -1
            if there:
                observed.size_bytes[row] = sizes[place]
                observed.log_dir[row] = self._paths.setdefault(path, len(self._paths))


def causes_of(diagnosis: Diagnosis) -> Causes:
    """The causes of the rows that have one."""
    snapshot, found = diagnosis.snapshot, {}
    for row in diagnosis.rows().tolist():
        partition = snapshot.partition_of(row)
        broker = int(snapshot.replicas.broker[row])
        found[partition.topic, partition.partition, broker] = Cause(int(diagnosis.causes[row]))
    return found


def published_causes(snapshot: Snapshot) -> Causes:
    """The causes of a snapshot's rows that have one."""
    rows = snapshot.replicas
    return {
        (*snapshot.partition_of(row), int(rows.broker[row])): Cause(int(rows.cause[row]))
        for row in np.flatnonzero(rows.cause).tolist()
    }


def stuck_of(diagnosis: Diagnosis) -> Causes:
    """The causes of the rows that are stuck."""
    return {key: cause for key, cause in causes_of(diagnosis).items() if cause.is_stuck}


def explained_in(diagnosis: Diagnosis) -> dict[tuple[str, int, int], Stuck]:
    """What is known of each row that has a cause."""
    found = (explain(diagnosis, row) for row in diagnosis.rows().tolist())
    return {(*one.partition, one.broker): one for one in found if one is not None}


def words_of(diagnosis: Diagnosis) -> dict[tuple[str, int, int], CauseText]:
    """What an operator reads about each stuck replica."""
    return {key: stuck_text(one) for key, one in explained_in(diagnosis).items()}


def needs_of(diagnosis: Diagnosis) -> dict[tuple[int, str], RateNeed]:
    """The highest rate that any replica needs, by broker and key."""
    found: dict[tuple[int, str], RateNeed] = {}
    for one in explained_in(diagnosis).values():
        for need in one.rates:
            known = found.get((need.broker, need.key))
            if known is None or known.needs_bytes_per_s < need.needs_bytes_per_s:
                found[need.broker, need.key] = need
    return found


def configure(core: Core, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
    """Set keys of a broker or a topic, and delete those that are None."""
    changes = [
        ConfigChange(key, ConfigOp.DELETE if value is None else ConfigOp.SET, value)
        for key, value in values.items()
    ]
    decision = incremental_alter_configs(core.image, {ConfigResource(kind, name): changes})
    assert core.commit(decision).results[0].ok, decision


def apply_needs(core: Core, needs: Iterable[RateNeed]) -> None:
    """Set the rates that are recommended, and nothing else."""
    for need in needs:
        values: dict[str, str | None] = {need.key: str(need.needs_bytes_per_s)}
        configure(core, ResourceType.BROKER, str(need.broker), values)


def _assignment(core: Core) -> Assignment:
    image, rows = core.image, []
    topics = tuple(sorted(image.topics))
    for place, topic in enumerate(topics):
        for number, state in sorted(image.topics[topic].partitions.items()):
            for position, broker in enumerate(state.replicas):
                offline = not image.is_online(broker, state.log_dir(broker))
                in_isr = broker in state.isr
                rows.append((place, number, broker, position, state.leader, in_isr, offline))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    kinds = (np.int32, np.int32, np.int32, np.int16, np.int32, np.bool_, np.bool_)
    return Assignment(topics, *(c.astype(kind) for c, kind in zip(columns, kinds, strict=True)))


def _ongoing(core: Core) -> dict[TopicPartition, OngoingReassignment]:
    found = {}
    for topic, number, state in core.image.moving():
        item = TopicPartition(topic.name, number)
        found[item] = OngoingReassignment(item, state.replicas, state.adding, state.removing)
    return found


def _throttles(core: Core) -> Throttles:
    image, rates, replicas = core.image, {}, {}
    for broker, state in image.brokers.items():
        if state.fenced or not core.plane.is_up(broker):
            continue
        found = image.dynamic_configs(ResourceType.BROKER, str(broker))
        one, two, three = (
            int(found[key]) if key in found else None
            for key in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
        )
        rates[broker] = BrokerThrottle(broker, ThrottledRate(one, two), three)
    for topic in image.topics:
        found = image.dynamic_configs(ResourceType.TOPIC, topic)
        lists = ThrottledReplicas(
            ReplicaSet.parse(found.get(LEADER_REPLICAS, "")),
            ReplicaSet.parse(found.get(FOLLOWER_REPLICAS, "")),
        )
        if lists:
            replicas[topic] = lists
    return Throttles(rates, replicas)
