"""The data plane follows the image: partitions, replicas, ISRs, leaders, throttled replicas.

Each call compares some partitions of the image with what is held of them, and makes the
differences of all of them in a few calls on columns. The order is: gone partitions, new ones, gone
replicas, new replicas, ISRs, directories, leaders, throttled replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kshunt.backend.domain.throttles.configs import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kshunt.backend.embedded.data.hosted_partition import BatchSink, HostedPartition, ThrottledList
from kshunt.backend.embedded.data.hosts import Hosts
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage, PartitionKey
from kshunt.backend.embedded.metadata.records import NO_LEADER, ReplicaState, ResourceType
from kshunt.backend.embedded.replication.columns import NOWHERE
from kshunt.backend.embedded.replication.model import Replication


@dataclass(slots=True)
class HostedPartitions:
    """Every partition that is held."""

    by_key: dict[PartitionKey, HostedPartition] = field(default_factory=dict)
    by_row: dict[int, HostedPartition] = field(default_factory=dict)
    """By row of `Replication.partitions`."""


class Reconciler:
    """See the module."""

    def __init__(
        self,
        image: ClusterImage,
        replication: Replication,
        hosts: Hosts,
        registry: HostedPartitions,
        sync: Callable[[HostedPartition], None],
        sink: BatchSink | None,
    ) -> None:
        """`sync` brings a partition's log up to what its leader holds."""
        self._image = image
        self._replication = replication
        self._hosts = hosts
        self._registry = registry
        self._sync = sync
        self._sink = sink

    def _wanted(self, key: PartitionKey) -> PartitionImage | None:
        topic = self._image.topic_by_id(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def reconcile(self, keys: Sequence[PartitionKey]) -> None:
        """Follow the image in these partitions."""
        there = [(key, wanted) for key in keys if (wanted := self._wanted(key)) is not None]
        self._drop(
            [key for key in keys if key in self._registry.by_key and self._wanted(key) is None]
        )
        self._create([key for key, _ in there if key not in self._registry.by_key])
        pairs = [(self._registry.by_key[key], wanted) for key, wanted in there]
        # What a leader has written so far belongs to its own epoch.
        led = [(held, wanted) for held, wanted in pairs if _new_epoch(held, wanted)]
        for held, _ in led:
            self._sync(held)
        self._drop_replicas(pairs)
        fresh = self._add_replicas(pairs)
        self._set_isr(pairs)
        self._set_dirs(pairs)
        self._lead(led)
        self.list_throttled(fresh)

    def _drop(self, keys: Sequence[PartitionKey]) -> None:
        gone = [self._registry.by_key.pop(key) for key in keys]
        for held in gone:
            del self._registry.by_row[held.row]
            if self._sink is not None:
                self._sink.dropped(held)
        if gone:
            self._replication.remove_partitions([held.row for held in gone])

    def _create(self, keys: Sequence[PartitionKey]) -> None:
        if not keys:
            return
        rows = self._replication.add_partitions(len(keys)).tolist()
        for key, row in zip(keys, rows, strict=True):
            topic = self._image.topic_by_id(key[0])
            held = HostedPartition(topic.name if topic else "", *key, row)
            self._registry.by_key[key] = self._registry.by_row[row] = held

    def _drop_replicas(self, pairs: Sequence[tuple[HostedPartition, PartitionImage]]) -> None:
        gone = []
        for held, wanted in pairs:
            lost = _deleted(wanted)
            for broker in [b for b in held.replicas if b not in wanted.replicas or b in lost]:
                gone.append(held.replicas.pop(broker))
        if gone:
            self._replication.remove_replicas(gone)

    def _add_replicas(
        self, pairs: Sequence[tuple[HostedPartition, PartitionImage]]
    ) -> list[HostedPartition]:
        new = []
        for held, wanted in pairs:
            lost = _deleted(wanted)
            for broker, path in zip(wanted.replicas, wanted.log_dirs, strict=True):
                if broker not in held.replicas and broker not in lost:
                    new.append((held, broker, self._hosts.dir(broker, path), broker in wanted.isr))
        if new:
            rows = self._replication.add_replicas(
                [held.row for held, _, _, _ in new],
                [self._hosts.number(broker) for _, broker, _, _ in new],
                [number for _, _, number, _ in new],
                in_isr=[in_isr for _, _, _, in_isr in new],
            )
            for (held, broker, _, _), row in zip(new, rows.tolist(), strict=True):
                held.replicas[broker] = row
        return list({id(held): held for held, _, _, _ in new}.values())

    def _set_isr(self, pairs: Sequence[tuple[HostedPartition, PartitionImage]]) -> None:
        present = self._replication.replicas.in_isr
        changed = [
            (row, broker in wanted.isr)
            for held, wanted in pairs
            for broker, row in held.replicas.items()
            if present[row] != (broker in wanted.isr)
        ]
        if changed:
            self._replication.set_isr([row for row, _ in changed], [value for _, value in changed])

    def _set_dirs(self, pairs: Sequence[tuple[HostedPartition, PartitionImage]]) -> None:
        table = self._replication.replicas
        for held, wanted in pairs:
            for broker, path in zip(wanted.replicas, wanted.log_dirs, strict=True):
                row = held.replicas.get(broker)
                number = self._hosts.dir(broker, path)
                if row is not None and number not in (NOWHERE, table.log_dir[row]):
                    table.log_dir[row] = number
                    self._replication.invalidate()

    def _lead(self, pairs: Sequence[tuple[HostedPartition, PartitionImage]]) -> None:
        if not pairs:
            return
        rows = [held.replicas.get(wanted.leader, NOWHERE) for held, wanted in pairs]
        self._replication.set_leaders([held.row for held, _ in pairs], rows)
        for (held, wanted), row in zip(pairs, rows, strict=True):
            held.leader = wanted.leader if row != NOWHERE else NO_LEADER
            held.leader_epoch = wanted.leader_epoch
            if held.log is not None and row != NOWHERE:
                end = int(self._replication.replicas.leo[row])
                if end < held.log.end_offset:
                    held.log.truncate_to(end)
                    if self._sink is not None:
                        self._sink.shortened(held)
                held.log.begin_epoch(held.leader_epoch)
                held.synced_ms = self._replication.now_ms

    def list_throttled(self, partitions: Sequence[HostedPartition]) -> None:
        """Set which replicas the topics' lists name."""
        lists: dict[str, tuple[ThrottledList, ThrottledList]] = {}
        rows: list[int] = []
        leaders: list[bool] = []
        followers: list[bool] = []
        for held in partitions:
            if held.topic not in lists:
                values = self._image.dynamic_configs(ResourceType.TOPIC, held.topic)
                lists[held.topic] = (
                    ThrottledList(values.get(LEADER_REPLICAS, "")),
                    ThrottledList(values.get(FOLLOWER_REPLICAS, "")),
                )
            lead, follow = lists[held.topic]
            for broker, row in held.replicas.items():
                rows.append(row)
                leaders.append(lead.has(held.number, broker))
                followers.append(follow.has(held.number, broker))
        if rows:
            self._replication.set_throttled(rows, leader=leaders, follower=followers)


def _new_epoch(held: HostedPartition, wanted: PartitionImage) -> bool:
    return (held.leader, held.leader_epoch) != (wanted.leader, wanted.leader_epoch)


def _deleted(wanted: PartitionImage) -> frozenset[int]:
    """Brokers that have deleted their replica of a partition that goes (KIP-694)."""
    if wanted.deletion is None:
        return frozenset()
    done = ReplicaState.DELETION_SUCCESSFUL
    return frozenset(one.broker for one in wanted.deletion.replicas if one.state is done)
