"""A scripted cluster for the dashboard's tests: it says what it is told to, tick by tick.

Not a broker and not a model of one: copies run at a fixed share of the throttle, and nothing
happens unless a test calls `step`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.forecast.expected_ends import Group, expected_ends
from kshunt.backend.domain.forecast.operation_deadlines import with_deadlines
from kshunt.backend.domain.forecast.outlook import outlook
from kshunt.backend.domain.forecast.ranges import QUANTILES
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation, snapshot_copies
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import Result
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import (
    DTYPES,
    UNKNOWN,
    BrokerStatus,
    HistoryPoint,
    Replicas,
    ReplicaStatus,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, Replica, Stuck
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OrphanOrigin,
    SettingValue,
    ShownDrift,
    ShownOrphan,
)

START_MS = 1_760_000_000_000
MESSAGE_BYTES = 1_000
HOSTILE = "cfg[red]x[/red]"
"""A name that is markup to who takes it for that."""

RANGE = np.zeros(QUANTILES) + np.log((0.9, 1.0, 1.2))
"""Of every forecast: frames need not change whenever the shipped calibration does."""
FREE_RATE = 120_000_000
"""Bytes a second of a copy that no throttle holds back."""
DRIFT = ShownDrift(
    "d1",
    "follower.replication.throttled.rate",
    2,
    None,
    DriftKind.CHANGED,
    SettingValue(25_000_000),
    SettingValue(50_000_000),
    operations=("op-1",),
)
"""A rate of `running_move` that somebody else changed."""
ORPHAN = ShownOrphan(
    "o1",
    "leader.replication.throttled.replicas",
    None,
    "audit-log",
    OrphanOrigin.ENDED_MOVE,
    SettingValue(replicas="1:2,1:3"),
)
"""A list that nobody needs."""


_FREE = ThrottledRate(None, None)


def expected_ends_of(snapshot: Snapshot, operations: Sequence[Operation]) -> dict[str, ExpectedEnd]:
    """When operations will be done, as a backend that has watched for ten minutes would say."""
    running = [
        RunningOperation(
            one.id, frozenset(one.partitions), (), None, False, one.details.deadline_ms
        )
        for one in operations
        if not one.state.ended and one.partitions
    ]
    found = snapshot_copies(snapshot, running)
    members = found.members(running)
    groups = [Group(rows, 600.0) for rows in members.values()]
    expected = outlook(found.copies, found.rates)
    ends = expected_ends(expected, groups, RANGE, snapshot.taken_ms)
    at_rates = partial(snapshot_copies, snapshot, running, None)
    found_ends = dict(zip(members, ends, strict=True))
    return with_deadlines(found_ends, running, expected, members, at_rates, RANGE)


@dataclass
class ScriptedPartition:
    """A partition: where its replicas are, and what a move still has to copy."""

    replicas: list[int]
    leader: int
    size_bytes: int
    copied: dict[int, int] = field(default_factory=dict)
    """Bytes that each added replica has."""
    removing: list[int] = field(default_factory=list)
    mode: PartitionMode = PartitionMode.READ_WRITE
    deletes_ms: int = UNKNOWN


@dataclass
class ScriptedCluster:
    """Brokers, topics and moves, all in the hands of a test."""

    cluster_id: str = "kSh-9xQmT4uB2vWcE0aLrg"
    bootstrap: str = "kafka-1.example:9092,kafka-2.example:9092"
    now_ms: int = START_MS
    version: int = 0
    racks: dict[int, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, ScriptedPartition] = field(default_factory=dict)
    rates: dict[int, ThrottledRate] = field(default_factory=dict)
    produced: dict[str, float] = field(default_factory=dict)
    """By topic: what is produced to each of its partitions, in bytes a second, where known."""
    lists: dict[str, ThrottledReplicas] = field(default_factory=dict)
    stuck: dict[Replica, Stuck] = field(default_factory=dict)
    """Replicas that do not advance, and why."""
    down: dict[int, str] = field(default_factory=dict)
    """Brokers that do not answer, and why."""
    gone: set[int] = field(default_factory=set)
    """Brokers that the cluster does not list any more."""
    silent_lag: set[int] = field(default_factory=set)
    """Brokers that do not say how far their replicas are."""
    growing: set[int] = field(default_factory=set)
    """Brokers whose replicas fall behind faster than they catch up."""
    history: list[HistoryPoint] = field(default_factory=list)
    operations: dict[str, Operation] = field(default_factory=dict)
    copy_bytes_per_s: dict[int, int] = field(default_factory=dict)
    min_isr: int = UNKNOWN
    """The min.insync.replicas of every topic."""

    @classmethod
    def of(cls, brokers: int, topics: Mapping[str, int], *, copies: int = 3) -> ScriptedCluster:
        """Brokers 1 to n on three racks; each topic's replicas striped over them."""
        cluster = cls(racks={id: f"rack-{'abc'[id % 3]}" for id in range(1, brokers + 1)})
        place = 0
        for topic, count in sorted(topics.items()):
            for number in range(count):
                replicas = [(place + offset) % brokers + 1 for offset in range(copies)]
                size = 4_000_000_000 + place * 765_432_100 % 9_000_000_000
                cluster.partitions[TopicPartition(topic, number)] = ScriptedPartition(
                    replicas, replicas[0], size
                )
                place += 1
        return cluster

    # What a test does to it

    def move(self, partition: TopicPartition, target: Sequence[int]) -> None:
        """Start moving a partition."""
        state = self.partitions[partition]
        adding = [broker for broker in target if broker not in state.replicas]
        state.removing = [broker for broker in state.replicas if broker not in target]
        state.copied.update(dict.fromkeys(adding, 0))
        state.replicas = [*target, *state.removing]

    def cancel(self, partition: TopicPartition) -> None:
        """Return a partition to where it was."""
        state = self.partitions[partition]
        state.replicas = [broker for broker in state.replicas if broker not in state.copied]
        state.copied.clear()
        state.removing.clear()

    def elect(self, partition: TopicPartition) -> Result:
        """Give the lead to the preferred replica."""
        state = self.partitions[partition]
        preferred = state.replicas[0]
        if preferred in state.copied or preferred in self.down:
            return Result(
                str(partition),
                80,
                "PREFERRED_LEADER_NOT_AVAILABLE",
                f"Broker {preferred} is not in the ISR.",
            )
        if state.leader == preferred:
            return Result(str(partition), 84, "ELECTION_NOT_NEEDED", "")
        state.leader = preferred
        return Result(str(partition), 0, "NONE", "")

    def step(self, seconds: float = 1.0) -> Snapshot:
        """Let time pass, and look."""
        self.let_pass(seconds)
        return self.snapshot()

    def let_pass(self, seconds: float = 1.0) -> None:
        """Let time pass while nobody looks: that takes a hundredth as long."""
        self.now_ms += round(seconds * 1000)
        for partition, state in self.partitions.items():
            for broker in list(state.copied):
                state.copied[broker] += round(self._speed(partition, broker) * seconds)
                state.copied[broker] = min(state.copied[broker], state.size_bytes)
            if state.copied and all(c >= state.size_bytes for c in state.copied.values()):
                self._finish(state)
        self._record()

    def _record(self) -> None:
        remaining = sum(self._lag(p, b) for p, s in self.partitions.items() for b in s.copied)
        moving = sum(len(state.copied) for state in self.partitions.values())
        copies = [(p, b) for p, s in self.partitions.items() for b in s.copied if self._lag(p, b)]
        rate = sum(max(self._speed(p, b), 0.0) for p, b in copies if b not in self.growing)
        limits = [self.rates.get(b, _FREE).follower_bytes_per_s for b in {b for _, b in copies}]
        bounded = limits and None not in limits and all(p.topic in self.lists for p, _ in copies)
        allowed = sum(limit or 0 for limit in limits) if bounded else None
        stuck = sum(1 for replica in copies if self._cause_of(*replica).is_stuck)
        self.history.append(HistoryPoint(self.now_ms, remaining, moving, rate, allowed, stuck))

    def _finish(self, state: ScriptedPartition) -> None:
        state.replicas = [broker for broker in state.replicas if broker not in state.removing]
        if state.leader not in state.replicas:
            state.leader = state.replicas[0]
        state.copied.clear()
        state.removing.clear()

    def _lag(self, partition: TopicPartition, broker: int) -> int:
        state = self.partitions[partition]
        return state.size_bytes - state.copied.get(broker, state.size_bytes)

    def _speed(self, partition: TopicPartition, broker: int) -> float:
        if broker in self.down:
            return 0.0
        if broker in self.copy_bytes_per_s:
            return float(self.copy_bytes_per_s[broker])
        sharing = sum(1 for state in self.partitions.values() if broker in state.copied)
        rate = self.rates.get(broker, ThrottledRate(None, None)).follower_bytes_per_s
        listed = (partition.partition, broker) in self.lists.get(
            partition.topic, ThrottledReplicas()
        ).followers
        limit = rate if rate is not None and listed else FREE_RATE
        return limit / max(sharing, 1)

    # What it looks like

    def snapshot(self) -> Snapshot:
        """The cluster now."""
        self.version += 1
        topics = tuple(sorted({partition.topic for partition in self.partitions}))
        places = {topic: place for place, topic in enumerate(topics)}
        rows: dict[str, list[object]] = {name: [] for name in DTYPES}
        for partition in sorted(self.partitions):
            for position, broker in enumerate(self.partitions[partition].replicas):
                row = self._row(partition, position, broker)
                row["topic_index"] = places[partition.topic]
                for name, value in row.items():
                    rows[name].append(value)
        snapshot = Snapshot(
            version=self.version,
            taken_ms=self.now_ms,
            cluster_id=self.cluster_id,
            controller=1,
            topics=topics,
            replicas=Replicas(**{n: np.array(rows[n], dtype) for n, dtype in DTYPES.items()}),
            brokers={id: self._status(id) for id in sorted(self.racks)},
            throttles=self._throttles(),
            log_dirs=tuple(self._log_dir(id) for id in sorted(self.racks)),
            log_dir_paths=("/var/lib/kafka",),
            history=tuple(self.history[-900:]),
            explained=dict(self.stuck),
            min_isr=(self.min_isr,) * len(topics),
            sweep_ms=self.now_ms,
            deletes_ms={
                p: one.deletes_ms for p, one in self.partitions.items() if one.deletes_ms >= 0
            },
            failed_requests=tuple(
                FailedRequest(f"Broker {id} does not answer: {why}. Its rows are old.", id)
                for id, why in sorted(self.down.items())
            ),
        )
        ends = expected_ends_of(snapshot, tuple(self.operations.values()))
        return replace(snapshot, expected_ends=ends)

    def _row(self, partition: TopicPartition, position: int, broker: int) -> dict[str, object]:
        state = self.partitions[partition]
        adding = broker in state.copied
        lag = self._lag(partition, broker)
        known = broker not in self.silent_lag and broker not in self.down
        speed = self._speed(partition, broker) if adding else math.nan
        speed = -2_500_000.0 if adding and broker in self.growing else speed
        lists = self.lists.get(partition.topic, ThrottledReplicas())
        end = state.size_bytes // MESSAGE_BYTES
        copied = not known and adding
        return {
            "partition": partition.partition,
            "broker": broker,
            "position": position,
            "leader": state.leader,
            "in_isr": lag == 0 and broker not in self.down,
            "adding": adding,
            "mode": state.mode,
            "removing": broker in state.removing,
            "leader_throttled": (partition.partition, broker) in lists.leaders,
            "follower_throttled": (partition.partition, broker) in lists.followers,
            "status": self._status_of(broker, lag, known),
            "cause": self._cause_of(partition, broker),
            "log_end_offset": UNKNOWN if copied else end - lag // MESSAGE_BYTES,
            "lag_messages": lag // MESSAGE_BYTES if known else UNKNOWN,
            "size_bytes": state.size_bytes - lag if known else UNKNOWN,
            "lag_bytes": lag if known else UNKNOWN,
            "log_dir": 0,
            "catch_up_messages_per_s": speed / MESSAGE_BYTES if known else math.nan,
            "catch_up_bytes_per_s": speed if known else math.nan,
            "fetched_bytes_per_s": max(speed, 0.0)
            if known and adding
            else self.produced.get(partition.topic, math.nan)
            if broker == state.leader
            else math.nan,
            "eta_s": self._eta(partition, broker, lag, speed) if known else math.nan,
            "sampled_ms": self.now_ms,
        }

    def _eta(self, partition: TopicPartition, broker: int, lag: int, speed: float) -> float:
        return math.inf if self._cause_of(partition, broker).is_stuck else _eta(lag, speed)

    def _cause_of(self, partition: TopicPartition, broker: int) -> Cause:
        why = self.stuck.get((partition, broker))
        return Cause.NONE if why is None else why.cause

    def _status_of(self, broker: int, lag: int, known: bool) -> ReplicaStatus:
        if broker in self.down:
            return ReplicaStatus.OFFLINE
        if not known:
            return ReplicaStatus.LAG_UNKNOWN
        return ReplicaStatus.BEHIND if lag else ReplicaStatus.IN_SYNC

    def _status(self, id: int) -> BrokerStatus:
        broker = Broker(id, f"kafka-{id}.example", 9092, self.racks[id])
        if id in self.gone:
            return BrokerStatus(Broker(id, "", 0, None), self.now_ms - 12_000, True)
        if id in self.down:
            failed = FailedRequest(self.down[id], id)
            return BrokerStatus(broker, self.now_ms - 12_000, True, failed)
        return BrokerStatus(broker, self.now_ms, False)

    def _throttles(self) -> Throttles:
        answered = [id for id in self.racks if id not in self.down]
        nothing = ThrottledRate(None, None)
        return Throttles(
            rates={
                id: BrokerThrottle(
                    id,
                    self.rates.get(id, nothing),
                    leader_source="DYNAMIC_BROKER_CONFIG" if id in self.rates else "",
                )
                for id in answered
            },
            replicas={topic: lists for topic, lists in self.lists.items() if lists},
            unknown_brokers=tuple(sorted(self.down)),
        )

    def _log_dir(self, id: int) -> LogDir:
        used = sum(s.size_bytes for s in self.partitions.values() if id in s.replicas)
        total = 1_000_000_000_000
        return LogDir(id, "/var/lib/kafka", total, max(total - used, 0))

    def note(self, kind: OperationKind, summary: str, **more: object) -> Operation:
        """Record that something was asked."""
        operation = Operation(
            id=f"op-{len(self.operations) + 1}",
            kind=kind,
            state=OperationState.STARTING,
            started_ms=self.now_ms,
            summary=summary,
        )
        self.operations[operation.id] = replace(operation, **more)  # type: ignore[arg-type]
        return self.operations[operation.id]


def running_move(cluster: ScriptedCluster) -> Operation:
    """Record the move that is under way, as somebody asked for it."""
    moving = {p: s for p, s in cluster.partitions.items() if s.copied}
    before = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "replicas": [b for b in s.replicas if b not in s.copied],
        }
        for p, s in moving.items()
    ]
    topics = {partition.topic for partition in moving}
    return cluster.note(
        OperationKind.REASSIGN,
        f"move {len(moving)} partitions of {len(topics)} topics",
        state=OperationState.RUNNING,
        throttle_bytes_per_s=25_000_000,
        partitions=tuple(moving),
        who="ada@bastion-1",
        reason="drain broker 4 before its disk is replaced",
        actions=("pause", "cancel"),
        details=OperationDetails(rollback_plan={"version": 1, "partitions": before}),
    )


def _eta(lag: int, speed: float) -> float:
    if lag == 0:
        return 0.0
    if math.isnan(speed):
        return math.nan
    return lag / speed if speed > 0 else math.inf


def incident() -> ScriptedCluster:
    """Five brokers, a throttled move of six partitions, one partition with the wrong leader."""
    cluster = ScriptedCluster.of(
        5,
        {
            "orders": 6,
            "payments.transactions.settled.v2": 8,
            "audit-log": 4,
            "clickstream-web-sessions-eu-west-1": 12,
        },
    )
    newcomers = {
        TopicPartition("clickstream-web-sessions-eu-west-1", 7): 5,
        TopicPartition("clickstream-web-sessions-eu-west-1", 9): 2,
        TopicPartition("orders", 0): 5,
        TopicPartition("orders", 2): 3,
        TopicPartition("payments.transactions.settled.v2", 1): 3,
        TopicPartition("payments.transactions.settled.v2", 3): 5,
    }
    moves = {
        partition: (*cluster.partitions[partition].replicas[:-1], newcomer)
        for partition, newcomer in newcomers.items()
    }
    throttle(cluster, moves, 25_000_000)
    for partition, target in moves.items():
        cluster.move(partition, target)
    misled = cluster.partitions[TopicPartition("audit-log", 1)]
    misled.leader = misled.replicas[1]
    return cluster


def eventful() -> ScriptedCluster:
    """A move under way for a minute: one replica falls behind, one broker is silent."""
    cluster = incident()
    cluster.growing = {2}
    cluster.copy_bytes_per_s = {3: 800_000}
    for _ in range(60):
        cluster.let_pass()
    cluster.silent_lag = {3}
    running_move(cluster)
    cluster.now_ms += 20_000
    cluster.note(
        OperationKind.THROTTLED_RATES,
        "rates of brokers 1, 2",
        state=OperationState.FAILED,
        outcome="CLUSTER_AUTHORIZATION_FAILED",
        who="bob@laptop",
        ended_ms=cluster.now_ms,
    )
    return cluster


def throttle(
    cluster: ScriptedCluster, moves: Mapping[TopicPartition, Sequence[int]], rate: int
) -> None:
    """Give every broker a rate, and list the replicas that a move will copy."""
    cluster.rates = {id: ThrottledRate(rate, rate) for id in cluster.racks}
    leaders: dict[str, set[tuple[int, int]]] = {}
    followers: dict[str, set[tuple[int, int]]] = {}
    for partition, target in moves.items():
        present = cluster.partitions[partition].replicas
        for broker in present:
            leaders.setdefault(partition.topic, set()).add((partition.partition, broker))
        for broker in set(target) - set(present):
            followers.setdefault(partition.topic, set()).add((partition.partition, broker))
    cluster.lists = {
        topic: ThrottledReplicas(
            ReplicaSet(frozenset(leaders[topic])), ReplicaSet(frozenset(followers.get(topic, ())))
        )
        for topic in leaders
    }


def moving() -> ScriptedCluster:
    """A throttled move that has run for two minutes, faster and slower."""
    cluster = incident()
    cluster.min_isr = 2
    running_move(cluster)
    for second in range(120):
        cluster.copy_bytes_per_s = {2: 200_000 * second, 5: 60_000 * second, 3: 11_000_000}
        cluster.let_pass()
    cluster.copy_bytes_per_s = {2: 24_000_000, 5: 7_500_000, 3: 11_000_000}
    return cluster
