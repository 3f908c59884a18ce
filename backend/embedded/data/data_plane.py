"""The cluster's data: what `ClusterImage` says should be there, as replication and logs have it.

Goals: after every commit, brokers, replicas, leaders, ISRs and throttles of the replication model
are those of the image; a partition that no client touches costs columns only.

Constraints: no clock and no I/O. The image is read, never changed: what replication finds out
(`Event`) goes to the controller, and comes back as records.

Algorithm: `apply` collects the partitions that a commit's records speak of, and `reconcile`
follows the image in them. One log represents all replicas of a partition, since a follower holds a
prefix of its leader's. When a leader is elected that holds less, the log is cut back to it. A log
is made when the first client comes, and the counters that were written since somebody last looked
are appended to it then.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from kshunt.backend.embedded.data.hosted_partition import BatchSink, HostedPartition
from kshunt.backend.embedded.data.hosts import Hardware, Hosts
from kshunt.backend.embedded.data.reconcile import HostedPartitions, Reconciler
from kshunt.backend.embedded.logs.partition_log import Appended, PartitionLog
from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.config_keys import LONG_MAX
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionKey
from kshunt.backend.embedded.metadata.records import NO_LEADER, ReplicaState, ResourceType
from kshunt.backend.embedded.replication.columns import NOWHERE, BrokerState, Event
from kshunt.backend.embedded.replication.model import GRAIN_MS, LAG_TIME_MAX_MS, Replication

THROTTLE_KEYS: Final = frozenset({LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE})
REPLICA_LIST_KEYS: Final = frozenset({LEADER_REPLICAS, FOLLOWER_REPLICAS})


class DataPlane:
    """See the module. Times are milliseconds since the epoch."""

    def __init__(
        self,
        image: ClusterImage,
        now_ms: int,
        *,
        hardware: Mapping[int, Hardware] | None = None,
        lag_time_max_ms: int = LAG_TIME_MAX_MS,
        grain_ms: int = GRAIN_MS,
        seed: int = 0,
        sink: BatchSink | None = None,
    ) -> None:
        self.image = image
        self.replication = Replication(now_ms, lag_time_max_ms=lag_time_max_ms, grain_ms=grain_ms)
        """To be read; changed through this class."""
        self.sink = sink
        self._seed = seed
        self._registry = HostedPartitions()
        self._hosts = Hosts(self.replication, hardware or {})
        self._reconciler = Reconciler(
            image, self.replication, self._hosts, self._registry, self._sync, sink
        )

    @property
    def now_ms(self) -> int:
        """How far replication has come."""
        return self.replication.now_ms

    # --- what is there

    def held(self, key: PartitionKey) -> HostedPartition | None:
        """A partition, if there is one."""
        return self._registry.by_key.get(key)

    def named(self, topic: str, number: int) -> HostedPartition | None:
        """A partition by its topic's name."""
        found = self.image.topic(topic)
        return None if found is None else self._registry.by_key.get((found.topic_id, number))

    def all_held(self) -> Iterable[HostedPartition]:
        """Every partition."""
        return self._registry.by_key.values()

    def at_row(self, row: int) -> HostedPartition:
        """The partition of a row of `Replication.partitions`."""
        return self._registry.by_row[row]

    def dir_path(self, number: int) -> str:
        """A log directory's path by its number in replication."""
        return self._hosts.path(number)

    def dir_number(self, broker: int, path: str) -> int:
        """A log directory's number in replication, or NOWHERE."""
        return self._hosts.dir(broker, path)

    def dir_volumes(self, broker: int) -> dict[int, tuple[int, int]]:
        """How much fits in each log directory of a broker, and what is free; by its number.

        Raises:
            KeyError: the broker never registered.
        """
        table, parts = self.replication.replicas, self.replication.partitions
        rows = np.flatnonzero(table.partition != NOWHERE)
        rows = rows[table.broker[rows] == self._hosts.number(broker)]
        starts = parts.start_position[table.partition[rows]]
        count = len(self.replication.limits.dir_rate)
        used = np.zeros(count)
        for column, places in ((table.position, table.log_dir), (table.moved, table.target_dir)):
            there = places[rows] != NOWHERE
            held = np.floor(column[rows][there] - starts[there])
            used += np.bincount(places[rows][there], held, minlength=count)
        total = self._hosts.hardware(broker).disk_bytes
        return {
            number: (total, max(total - int(used[number]), 0))
            for number in np.flatnonzero(
                self.replication.limits.dir_broker == self._hosts.number(broker)
            ).tolist()
        }

    def broker_number(self, broker: int) -> int:
        """A broker's number in replication.

        Raises:
            KeyError: it never registered.
        """
        return self._hosts.number(broker)

    def broker_id(self, number: int) -> int:
        """The id of a broker by its number in replication."""
        return self._hosts.id(number)

    def is_up(self, broker: int) -> bool:
        """Whether its process runs and answers."""
        if broker not in self._hosts:
            return False
        state = self.replication.limits.state[self._hosts.number(broker)]
        return bool(state == BrokerState.UP)

    def log_end_offset(self, held: HostedPartition, broker: int) -> int | None:
        """A replica's own log end offset, or None if this broker has none."""
        row = held.replicas.get(broker)
        return None if row is None else int(self.replication.replicas.leo[row])

    def log_start_offset(self, held: HostedPartition) -> int:
        """The partition's first offset."""
        if held.log is not None:
            return held.log.start_offset
        return math.ceil(float(self.replication.partitions.start_offset[held.row]))

    def high_watermark(self, held: HostedPartition) -> int:
        """The least log end in the ISR: up to where consumers read."""
        topic = self.image.topic_by_id(held.topic_id)
        if topic is None or held.number not in topic.partitions:
            return -1
        ends = self.replication.replicas.leo
        rows = [held.replicas[b] for b in topic.partitions[held.number].isr if b in held.replicas]
        return min((int(ends[row]) for row in rows), default=-1)

    # --- logs

    def log(self, held: HostedPartition) -> PartitionLog:
        """The partition's log, with all that was written up to now."""
        if held.log is None:
            held.log = self.empty_log(held)
            held.synced_ms = self._first_ms(held)
        self._sync(held)
        return held.log

    def append(
        self, held: HostedPartition, data: bytes, max_bytes: int, *, append_ms: int | None = None
    ) -> Appended:
        """Append a client's batch on the leader; for `append_ms` see `PartitionLog.append_batch`.

        Raises:
            LogError: what Kafka would answer.
            Conflict: there is no leader.
        """
        log = self.log(held)
        before = log.size_bytes
        appended = log.append_batch(data, held.leader_epoch, max_bytes, append_ms=append_ms)
        if not appended.duplicate:
            self._grown(held, log, appended, before)
        return appended

    def append_marker(
        self,
        held: HostedPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
    ) -> Appended:
        """End a producer's transaction in a partition.

        Raises:
            InvalidProducerEpoch: a newer instance of the producer has written.
            Conflict: there is no leader.
        """
        log = self.log(held)
        before = log.size_bytes
        appended = log.append_marker(
            producer_id,
            producer_epoch,
            held.leader_epoch,
            self.now_ms,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        self._grown(held, log, appended, before)
        return appended

    def delete_records(self, held: HostedPartition, before_offset: int) -> int:
        """Let a log start at an offset; returns its new start.

        Raises:
            OffsetOutOfRange: the offset lies after the end.
        """
        log = self.log(held)
        start = log.delete_records(before_offset)
        self.replication.set_log_start([held.row], [start])
        if self.sink is not None:
            self.sink.shortened(held)
        return start

    def retain(self, limits: Mapping[PartitionKey, tuple[int, int]]) -> None:
        """Apply retention.ms and retention.bytes to partitions; -1 is without limit.

        Counters that no client has looked at go in proportion to their rate.
        """
        counted: list[tuple[int, float]] = []
        for key, (retention_ms, retention_bytes) in limits.items():
            held = self._registry.by_key.get(key)
            if held is None or held.leader == NO_LEADER:
                continue
            if held.log is not None:
                self._retain_log(held, retention_ms, retention_bytes)
                continue
            retained_bytes = math.inf if retention_bytes < 0 else float(retention_bytes)
            rate = float(self.replication.partitions.bytes_rate[held.row])
            if retention_ms >= 0 and rate > 0:
                retained_bytes = min(retained_bytes, rate * retention_ms / 1000)
            if retained_bytes < math.inf:
                counted.append((held.row, retained_bytes))
        if counted:
            self.replication.retain([row for row, _ in counted], [size for _, size in counted])

    def _retain_log(self, held: HostedPartition, retention_ms: int, retention_bytes: int) -> None:
        log = self.log(held)
        before, mark = log.start_offset, self.high_watermark(held)
        start = log.retain(mark, self.now_ms, retention_ms, retention_bytes)
        if start > before:
            self.replication.set_log_start([held.row], [start])
            if self.sink is not None:
                self.sink.shortened(held)

    def _grown(
        self, held: HostedPartition, log: PartitionLog, appended: Appended, before: int
    ) -> None:
        count = appended.end_offset - appended.base_offset
        self.replication.append(held.row, count, log.size_bytes - before)
        if self.sink is not None:
            self.sink.appended(held, log.last_batch())

    def _sync(self, held: HostedPartition) -> None:
        """Append what the scenario has written since the log was last looked at."""
        log = held.log
        if log is None or held.leader == NO_LEADER:
            return
        end = self.log_end_offset(held, held.leader)
        if end is not None and end > log.end_offset:
            log.append_counted(
                end - log.end_offset,
                held.record_bytes,
                held.synced_ms,
                self.now_ms,
                max(held.leader_epoch, 0),
            )
        held.synced_ms = self.now_ms

    def _first_ms(self, held: HostedPartition) -> int:
        """When the first record was written, by the present rate."""
        parts = self.replication.partitions
        rate = float(parts.records_rate[held.row])
        end = self.log_end_offset(held, held.leader) or 0
        count = end - float(parts.start_offset[held.row])
        return self.now_ms - (int(count / rate * 1000) if rate > 0 else 60_000)

    # --- logs that come back from disk

    def empty_log(self, held: HostedPartition) -> PartitionLog:
        """A log that begins where the partition begins."""
        seed = zlib.crc32(f"{held.topic}-{held.number}".encode(), self._seed)
        return PartitionLog(seed, self.log_start_offset(held))

    def count_up_to(self, held: HostedPartition, log: PartitionLog, offset: int) -> None:
        """Fill the gap before a batch that is read back with what was counted there."""
        missing = offset - log.end_offset
        if missing > 0:
            epoch = max(log.leader_epoch, 0)
            log.append_counted(missing, held.record_bytes, self.now_ms, self.now_ms, epoch)

    def adopt(self, held: HostedPartition, log: PartitionLog) -> None:
        """Take a log that was read back; who is in sync has all of it."""
        held.log, held.synced_ms = log, self.now_ms
        table = self.replication.replicas
        begin = float(self.replication.partitions.start_position[held.row])
        for row in held.replicas.values():
            if table.in_isr[row] and table.leo[row] < log.end_offset:
                table.leo[row] = log.end_offset
                table.position[row] = max(table.position[row], begin + log.size_bytes)
        self.replication.invalidate()

    # --- hardware and traffic

    def set_traffic(
        self, keys: Sequence[PartitionKey], bytes_per_s: Sequence[float], record_bytes: int
    ) -> None:
        """What a scenario writes to these partitions from here on."""
        places = [
            (self._registry.by_key[key], rate) for key, rate in zip(keys, bytes_per_s, strict=True)
        ]
        for held, _ in places:
            self._sync(held)
            held.record_bytes = record_bytes
        rates = np.array([rate for _, rate in places], np.float64)
        rows = [held.row for held, _ in places]
        self.replication.set_rates(rows, rates, rates / record_bytes)

    def fill(
        self, keys: Sequence[PartitionKey], sizes_bytes: Sequence[float], record_bytes: int
    ) -> None:
        """Add these sizes to these partitions, on all of their present replicas."""
        table = self.replication.replicas
        for key, size in zip(keys, sizes_bytes, strict=True):
            held = self._registry.by_key[key]
            held.record_bytes = record_bytes
            rows = list(held.replicas.values())
            table.position[rows] += size
            table.leo[rows] += size // record_bytes
        self.replication.invalidate()

    def fall_behind(self, held: HostedPartition, broker: int, size_bytes: float) -> None:
        """Let a replica lack so much of what it holds; at the most all of it."""
        table, row = self.replication.replicas, held.replicas[broker]
        begin = float(self.replication.partitions.start_position[held.row])
        lacking = min(size_bytes, float(table.position[row]) - begin)
        table.position[row] -= lacking
        table.leo[row] -= lacking // held.record_bytes
        self.replication.invalidate()

    def set_broker_state(self, broker: int, state: BrokerState) -> None:
        """A broker's process stops, hangs or runs."""
        self.replication.set_broker_state(self._hosts.number(broker), state)

    def set_dir_online(self, broker: int, path: str, *, online: bool) -> None:
        """A broker's disk fails or works again."""
        self.replication.set_log_dir_online(self._dir(broker, path), online=online)

    def set_link(self, source: int, target: int, rate_bytes_per_s: float) -> None:
        """Slow the link between two brokers; `math.inf` frees it."""
        pair = self._hosts.number(source), self._hosts.number(target)
        self.replication.set_link_rate(*pair, rate_bytes_per_s)

    def set_network(self, broker: int, in_bytes_per_s: float, out_bytes_per_s: float) -> None:
        """Change what a broker's network carries."""
        self.replication.set_network(self._hosts.number(broker), in_bytes_per_s, out_bytes_per_s)

    def move_log_dir(self, held: HostedPartition, broker: int, path: str) -> None:
        """Copy a replica to another directory of its broker (KIP-113).

        Raises:
            KeyError: the broker has no such replica or directory.
        """
        self.replication.move_log_dirs([held.replicas[broker]], [self._dir(broker, path)])

    def _dir(self, broker: int, path: str) -> int:
        number = self._hosts.dir(broker, path)
        if number == NOWHERE:
            raise KeyError((broker, path))
        return number

    def tick(self, now_ms: int) -> list[Event]:
        """See `Replication.tick`."""
        return self.replication.tick(now_ms)

    def answer_isr(self, rows: Iterable[tuple[HostedPartition, int, int]]) -> None:
        """Leaders' proposals were decided: `(partition, broker, replica row)` each."""
        current = [row for held, broker, row in rows if held.replicas.get(broker) == row]
        if current:
            self.replication.set_isr(current, self.replication.replicas.in_isr[current])

    # --- records

    def apply(self, records: Sequence[r.Record]) -> None:
        """Follow what these records, which the image has replayed already, have changed."""
        touched: dict[PartitionKey, None] = {}
        topics: dict[str, None] = {}
        brokers: dict[int, None] = {}
        for record in records:
            match record:
                case r.PartitionChanged() | r.PartitionCreated() | r.PartitionRemoved():
                    touched[record.topic_id, record.partition] = None
                case r.ReplicaStateChanged(state=ReplicaState.DELETION_SUCCESSFUL):
                    touched[record.topic_id, record.partition] = None
                case r.TopicDeleted():
                    gone = [key for key in self._registry.by_key if key[0] == record.topic_id]
                    touched.update(dict.fromkeys(gone))
                case r.BrokerRegistered():
                    self._register(record)
                    brokers[record.broker] = None
                case r.ConfigChanged(key=key) if key in REPLICA_LIST_KEYS:
                    topics[record.resource] = None
                case r.ConfigChanged(key=key) if key in THROTTLE_KEYS:
                    named = record.resource
                    brokers.update(dict.fromkeys([int(named)] if named else self._hosts))
                case _:
                    pass
        if touched:
            self._reconciler.reconcile(list(touched))
        self._throttle(topics, brokers)

    def rebuild(self) -> None:
        """Follow the whole of an image that was replayed from a log."""
        for state in self.image.brokers.values():
            self._hosts.add(state.id, state.log_dirs)
            up = BrokerState.DOWN if state.fenced else BrokerState.UP
            self.set_broker_state(state.id, up)
            for path in state.log_dirs:
                self.set_dir_online(state.id, path, online=path not in state.offline_dirs)
        topics = self.image.topics
        self._reconciler.reconcile([(t.topic_id, n) for t in topics.values() for n in t.partitions])
        self._throttle(topics, self._hosts)

    def _register(self, record: r.BrokerRegistered) -> None:
        self._hosts.add(record.broker, record.log_dirs)
        for path in record.log_dirs:
            self.set_dir_online(record.broker, path, online=True)

    # --- throttles

    def _throttle(self, topics: Iterable[str], brokers: Iterable[int]) -> None:
        for name in topics:
            topic = self.image.topic(name)
            if topic is not None:
                self._reconciler.list_throttled(
                    [self._registry.by_key[topic.topic_id, number] for number in topic.partitions]
                )
        for broker in brokers:
            if broker in self._hosts:
                self.replication.set_throttle_rates(
                    self._hosts.number(broker),
                    leader=self._rate(broker, LEADER_RATE),
                    follower=self._rate(broker, FOLLOWER_RATE),
                    log_dirs=self._rate(broker, LOG_DIR_RATE),
                )

    def _rate(self, broker: int, key: str) -> float:
        value = self.image.config(ResourceType.BROKER, str(broker), key).value
        rate = LONG_MAX if value is None else int(value)
        return math.inf if rate >= LONG_MAX else float(max(rate, 1))


def moves_between_dirs(plane: DataPlane) -> Iterator[tuple[HostedPartition, int]]:
    """The replicas that are being copied to another directory, with their rows."""
    table = plane.replication.replicas
    for row in np.flatnonzero(table.target_dir != NOWHERE).tolist():
        yield plane.at_row(int(table.partition[row])), row
