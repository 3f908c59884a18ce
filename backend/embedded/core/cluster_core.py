"""A cluster without sockets: commands are decided, committed and replayed, and time goes by.

Goals: everything that happens to the cluster's state happens here. With the same seed, the same
calls and the same times, it happens in the same way, byte for byte.

Constraints: no sockets, no clock, no threads; time comes in with `advance`. What a decision wrote
is durable before anybody sees its effect.

Algorithm: `commit` writes a decision's records to the store, replays them into the image, and has
the data plane follow. `advance` goes from event to event. The events are timers that are due, and
what replication reports: each leader's ISR proposals in one AlterPartition, and copies between
directories. While partitions are deleted, the controller and the brokers act once a second.
Source: Kafka's `QuorumController` and `ReplicaManager`; KIP-179 for the controller's fail-over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final, Protocol, TypeVar

from kshunt.backend.domain.cluster.config_names import CLEANUP_POLICY
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.brokers import (
    Registration,
    assign_log_dirs,
    fail_log_dirs,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.elections import elect_leaders
from kshunt.backend.embedded.controller.isr import IsrReport, alter_partition
from kshunt.backend.embedded.controller.shrink import finish_replica_deletion
from kshunt.backend.embedded.controller.throttle_removal import fail_over
from kshunt.backend.embedded.controller.tick import tick
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.data.hosted_partition import HostedPartition
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionKey
from kshunt.backend.embedded.metadata.records import (
    NO_LEADER,
    BrokerRegistered,
    BrokerUnfenced,
    Record,
    ReplicaState,
    ResourceType,
)
from kshunt.backend.embedded.replication.columns import (
    BrokerState,
    Event,
    IsrExpand,
    IsrShrink,
    LogDirMoveDone,
)
from kshunt.backend.errors import KshuntError

Item = TypeVar("Item")

TICK_MS: Final = 1_000
"""How often the controller looks for what is due, while partitions are being deleted."""
SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's default of broker.session.timeout.ms."""
REBALANCE_INTERVAL_MS: Final = 300_000
"""Kafka's default of leader.imbalance.check.interval.seconds."""
RETENTION_INTERVAL_MS: Final = 300_000
"""Kafka's default of log.retention.check.interval.ms."""
MOVES_INTERVAL_MS: Final = 60_000
"""Moves end with the ISR that completes them; this only looks whether one was forgotten."""
WISHES_MAX: Final = 10_000
"""Directories that are kept in mind for replicas that are not there yet."""


class ControllerLost(KshuntError):
    """The controller crashed while it committed; another one took over."""

    title = "The controller was lost"


class RecordStore(Protocol):
    """Where records go to survive the process."""

    def commit(self, records: Sequence[Record]) -> int:
        """Returns when they are durable."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the cluster waits before it acts by itself; the defaults are Kafka's."""

    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_interval_ms: int = REBALANCE_INTERVAL_MS
    retention_interval_ms: int = RETENTION_INTERVAL_MS


class Core:
    """See the module. Times are milliseconds since the epoch."""

    def __init__(
        self,
        image: ClusterImage,
        plane: DataPlane,
        random: Random,
        *,
        timing: Timing | None = None,
        store: RecordStore | None = None,
    ) -> None:
        self.image = image
        """To be read; `commit` changes it."""
        self.plane = plane
        self.random = random
        self.timing = timing or Timing()
        self._store = store
        self._lose_after: int | None = None
        self._wished_dirs: dict[tuple[TopicPartition, int], str] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._next_tick_ms = plane.now_ms + TICK_MS
        self.every(MOVES_INTERVAL_MS, self._end_moves)
        self.every(self.timing.rebalance_interval_ms, self._rebalance)
        self.every(self.timing.retention_interval_ms, self._retain)

    @property
    def now_ms(self) -> int:
        """The cluster's time."""
        return self.plane.now_ms

    # --- commands

    def commit(self, decision: Decision[Item]) -> Decision[Item]:
        """Make the records of a client's decision durable and true; returns it for its answer.

        Raises:
            ControllerLost: `lose_controller` was asked for; what was not written is not done.
        """
        records = decision.records
        if not records:
            return decision
        if self._lose_after is not None:
            written, self._lose_after = records[: self._lose_after], None
            self._write(written)
            self.fail_over()
            raise ControllerLost("The controller crashed; another one has taken over.")
        self._write(records)
        return decision

    def _do(self, decision: Decision[Item]) -> None:
        """Commit what brokers and time bring: Kafka's controller writes that wholly or not."""
        self._write(decision.records)

    def _write(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if self._store is not None:
            self._store.commit(records)
        for record in records:
            self.image.replay(record)
        self.plane.apply(records)
        if self._wished_dirs:
            self._place_wished()

    def _place_wished(self) -> None:
        """Replicas that have come lie where they were asked to lie before."""
        for (item, broker), path in list(self._wished_dirs.items()):
            partition = self.image.partition(*item)
            if partition is not None and broker in partition.replicas:
                del self._wished_dirs[item, broker]
                self._do(assign_log_dirs(self.image, broker, {item: path}))

    def wish_log_dir(self, held: HostedPartition, broker: int, path: str) -> None:
        """Keep in mind where a replica is to lie that a broker may get; the last wishes count."""
        while len(self._wished_dirs) >= WISHES_MAX:
            del self._wished_dirs[next(iter(self._wished_dirs))]
        self._wished_dirs[TopicPartition(held.topic, held.number), broker] = path

    # --- time

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Do something when the cluster's time has come; of one time, the earlier asked first."""
        heapq.heappush(self._timers, (when_ms, next(self._order), action))

    def every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Do something again and again."""

        def again() -> None:
            action()
            self.at(self.now_ms + interval_ms, again)

        self.at(self.now_ms + interval_ms, again)

    def advance(self, now_ms: int) -> None:
        """Move time to `now_ms`, and let everything happen that happens until then."""
        while True:
            due_ms = now_ms
            if self.image.is_deleting:
                due_ms = min(due_ms, self._next_tick_ms)
            if self._timers:
                due_ms = min(due_ms, max(self._timers[0][0], self.now_ms))
            self._replicate(due_ms)
            while self._timers and self._timers[0][0] <= self.now_ms:
                heapq.heappop(self._timers)[2]()
            if self.now_ms >= self._next_tick_ms:
                self._next_tick_ms = self.now_ms + TICK_MS
                self._look()
            if self.now_ms >= now_ms:
                return

    def _replicate(self, until_ms: int) -> None:
        while self.now_ms < until_ms:
            events = self.plane.tick(until_ms)
            if events:
                self._react(events)

    def _react(self, events: Iterable[Event]) -> None:
        proposals: dict[int, dict[TopicPartition, IsrReport]] = {}
        asked: list[tuple[HostedPartition, int, int]] = []
        for event in events:
            held = self.plane.at_row(event.partition)
            broker = self.plane.broker_id(event.broker)
            if isinstance(event, IsrShrink | IsrExpand):
                asked.append((held, broker, event.replica))
                self._propose(proposals, held, broker, joins=isinstance(event, IsrExpand))
            elif isinstance(event, LogDirMoveDone):
                path = self.plane.dir_path(event.log_dir)
                item = TopicPartition(held.topic, held.number)
                self._do(assign_log_dirs(self.image, broker, {item: path}))
        for leader, reports in proposals.items():
            state = self.image.brokers[leader]
            self._do(alter_partition(self.image, leader, state.epoch, reports))
        self.plane.answer_isr(asked)

    def _propose(
        self,
        proposals: dict[int, dict[TopicPartition, IsrReport]],
        held: HostedPartition,
        broker: int,
        *,
        joins: bool,
    ) -> None:
        """Add to what the partition's leader reports; several followers make one report."""
        item = TopicPartition(held.topic, held.number)
        partition = self.image.partition(*item)
        if partition is None or partition.leader == NO_LEADER or partition.leader == broker:
            return
        reports = proposals.setdefault(partition.leader, {})
        isr = reports[item].isr if item in reports else partition.isr
        isr = (*isr, broker) if joins and broker not in isr else isr
        isr = isr if joins else tuple(one for one in isr if one != broker)
        reports[item] = IsrReport(partition.leader_epoch, partition.partition_epoch, isr)

    def _look(self) -> None:
        """What the controller, and the brokers that delete replicas, do by themselves."""
        if not self.image.is_deleting:
            return
        self._do(tick(self.image, self.now_ms))
        # All of them now: the end of one may take others out of the metadata.
        for topic, number, partition in list(self.image.deleting()):
            deletion = partition.deletion
            item = TopicPartition(topic.name, number)
            for replica in deletion.replicas if deletion else ():
                if replica.state is ReplicaState.DELETION_STARTED:
                    broker = replica.broker
                    if self.plane.is_up(broker):
                        done = self.image.is_online(broker, partition.log_dir(broker))
                        self._do(
                            finish_replica_deletion(
                                self.image, item, broker, self.now_ms, deleted=done
                            )
                        )

    def _end_moves(self) -> None:
        self._do(tick(self.image, self.now_ms))

    def _rebalance(self) -> None:
        """Preferred leaders lead again (auto.leader.rebalance.enable)."""
        if self.image.cluster_config("auto.leader.rebalance.enable") == "true":
            self._do(elect_leaders(self.image, None))

    def _retain(self) -> None:
        """Apply every topic's retention.ms and retention.bytes."""
        limits: dict[PartitionKey, tuple[int, int]] = {}
        for name, topic in self.image.topics.items():
            if "delete" in self._topic_config(name, CLEANUP_POLICY):
                ms, size = (
                    int(self._topic_config(name, f"retention.{u}")) for u in ("ms", "bytes")
                )
                limits.update({(topic.topic_id, n): (ms, size) for n in topic.partitions})
        self.plane.retain(limits)

    def _topic_config(self, name: str, key: str) -> str:
        return self.image.config(ResourceType.TOPIC, name, key).value or ""

    # --- brokers and their faults

    def start_all(self, requests: Sequence[Registration], *, together: bool = True) -> None:
        """Brokers' processes start and are ready; their disks work again.

        A whole cluster that starts `together` finds everything as it was when its log ended:
        nobody was there to notice that the others were gone.
        """
        for request in requests:
            known = self.image.brokers.get(request.broker)
            if together and known is not None and not known.fenced:
                self._do(_returned(request, self.image.offset + 1))
            else:
                if known is not None and not known.fenced:
                    self._do(fence_broker(self.image, request.broker))
                self._do(register_broker(self.image, request))
                self._do(unfence_broker(self.image, request.broker))
            self.plane.set_broker_state(request.broker, BrokerState.UP)
        if not self.plane.is_up(self.image.controller):
            self.fail_over()

    def stop_broker(self, broker: int) -> None:
        """A broker shuts down in an orderly way: others lead before it is gone."""
        self._do(fence_broker(self.image, broker))
        self.plane.set_broker_state(broker, BrokerState.DOWN)
        self._leave_controller(broker)

    def lose_broker(self, broker: int, *, stalled: bool = False) -> None:
        """A broker crashes, or hangs: the controller notices when its session times out."""
        state = BrokerState.STALLED if stalled else BrokerState.DOWN
        self.plane.set_broker_state(broker, state)
        epoch = self.image.brokers[broker].epoch
        self.at(self.now_ms + self.timing.session_timeout_ms, lambda: self._expire(broker, epoch))

    def resume_broker(self, broker: int) -> None:
        """A broker that hung continues; if it was fenced meanwhile, it is ready again."""
        self.plane.set_broker_state(broker, BrokerState.UP)
        self._do(unfence_broker(self.image, broker))

    def _expire(self, broker: int, epoch: int) -> None:
        state = self.image.brokers.get(broker)
        if state is not None and state.epoch == epoch and not self.plane.is_up(broker):
            self._do(fence_broker(self.image, broker))
            self._leave_controller(broker)

    def fail_log_dir(self, broker: int, path: str) -> None:
        """A broker's disk fails.

        Raises:
            KeyError: the broker has no such directory.
        """
        self.plane.set_dir_online(broker, path, online=False)
        self._do(fail_log_dirs(self.image, broker, [path]))
        if self.image.brokers[broker].fenced:
            self.plane.set_broker_state(broker, BrokerState.DOWN)
            self._leave_controller(broker)

    def lose_controller(self, after_records: int) -> None:
        """Let the controller crash in the middle of a client's next decision that writes something.

        The controller writes only the first `after_records` of its records. Then another
        controller takes over, as after any crash (KIP-179, "On Controller Failover").
        """
        self._lose_after = after_records

    def fail_over(self) -> None:
        """The next broker that runs becomes the controller."""
        live = sorted(b.id for b in self.image.brokers.values() if not b.fenced)
        live = [broker for broker in live if self.plane.is_up(broker)]
        if live:
            after = [broker for broker in live if broker > self.image.controller]
            self._do(fail_over(self.image, (after or live)[0]))

    def _leave_controller(self, broker: int) -> None:
        if self.image.controller == broker:
            self.fail_over()


def _returned(request: Registration, epoch: int) -> Decision[int]:
    """A broker is there again, and nothing but its address has changed."""
    registered = BrokerRegistered(
        request.broker,
        epoch,
        request.incarnation,
        request.host,
        request.port,
        request.rack,
        request.log_dirs,
    )
    return Decision.of([registered, BrokerUnfenced(request.broker)])
