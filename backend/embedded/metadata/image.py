"""What the controller knows: the state that a log of records adds up to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from types import MappingProxyType
from typing import Final

from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.acls import (
    Acl,
    AclOperationCode,
    PatternType,
    Permission,
    ResourceKind,
)
from kshunt.backend.embedded.metadata.config_keys import KEYS, ConfigKey, ConfigSourceNumber
from kshunt.backend.embedded.metadata.image_values import (
    DeletingPartition,
    DescribedConfig,
    PartitionImage,
    PartitionKey,
    Reassignment,
    RegisteredBroker,
    ReplicaDeletion,
    TopicImage,
)
from kshunt.backend.embedded.metadata.records import (
    DeletionState,
    PartitionModeCode,
    ReplicaState,
    ResourceType,
)

CLUSTER_DEFAULT: Final = ""
"""The broker resource whose values hold for all brokers."""


@dataclass(slots=True)
class ClusterImage:
    """The cluster's state; `replay` is its only mutator, everything else reads.

    Two images are equal if the same changes were replayed into them. A partition costs about
    half a kilobyte.
    """

    static: Mapping[str, str] = field(default_factory=dict)
    """The brokers' properties file: by key, the same for all."""
    offset: int = 0
    """How many records were replayed."""
    controller: int = -1
    controller_epoch: int = 0
    next_producer_id: int = 0
    replicas_removal: tuple[str, ...] = ()
    """Topics whose throttled replicas go when the move is over (KIP-179)."""
    rates_removal: tuple[int, ...] = ()
    """Brokers whose throttled rates go when the move is over (KIP-179)."""
    acl_changes: int = field(default=0, compare=False)
    """Rises with each ACL that comes or goes."""
    _brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    _topics: dict[str, TopicImage] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _configs: dict[tuple[ResourceType, str], dict[str, str]] = field(default_factory=dict)
    _hosted: dict[int, dict[PartitionKey, None]] = field(default_factory=dict)
    _moving: dict[PartitionKey, None] = field(default_factory=dict)
    _deleting: dict[PartitionKey, None] = field(default_factory=dict)
    _acls: dict[Acl, None] = field(default_factory=dict)

    def replay(self, record: r.Record) -> None:
        """Make the change that a record states.

        Raises:
            KeyError: the record speaks of something that no earlier record created.
        """
        self._replay(record)
        self.offset = record.offset if isinstance(record, r.SnapshotTaken) else self.offset + 1

    # Queries

    @property
    def brokers(self) -> Mapping[int, RegisteredBroker]:
        """Every registered broker, fenced ones too."""
        return MappingProxyType(self._brokers)

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        """Every topic by name."""
        return {name: self._topics[topic_id] for name, topic_id in self._names.items()}

    def topic(self, name: str) -> TopicImage | None:
        """A topic by name."""
        topic_id = self._names.get(name)
        return None if topic_id is None else self._topics[topic_id]

    def topic_by_id(self, topic_id: str) -> TopicImage | None:
        """A topic by id (32 lower-case hexadecimal digits)."""
        return self._topics.get(topic_id)

    def partition(self, topic: str, number: int) -> PartitionImage | None:
        """A partition, if there is one of that name."""
        found = self.topic(topic)
        return None if found is None else found.partitions.get(number)

    def hosted(self, broker: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The partitions with a replica on a broker."""
        return self._named(self._hosted.get(broker, {}))

    def hosted_count(self, broker: int) -> int:
        """How many replicas a broker has."""
        return len(self._hosted.get(broker, ()))

    def moving(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The partitions that move."""
        return self._named(self._moving)

    @property
    def is_moving(self) -> bool:
        """True while any partition moves: KIP-179's /admin/reassign_partitions exists."""
        return bool(self._moving)

    @property
    def is_deleting(self) -> bool:
        """True while any partition is to be deleted."""
        return bool(self._deleting)

    def deleting(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The partitions that are to be deleted."""
        return self._named(self._deleting)

    def reassignments(self) -> tuple[Reassignment, ...]:
        """All moves, sorted (KIP-455, ListPartitionReassignments)."""
        found = (
            Reassignment(t.name, number, p.replicas, p.adding, p.removing)
            for t, number, p in self.moving()
        )
        return tuple(sorted(found, key=lambda move: (move.topic, move.partition)))

    def is_online(self, broker: int, log_dir: str = r.NO_DIR) -> bool:
        """True if a replica in that directory of that broker can lead."""
        state = self._brokers.get(broker)
        return state is not None and not state.fenced and log_dir not in state.offline_dirs

    @property
    def configured(self) -> Iterator[tuple[ResourceType, str]]:
        """The resources on which something was set."""
        return iter(tuple(self._configs))

    @property
    def acls(self) -> KeysView[Acl]:
        """Every ACL, in the order in which they came."""
        return self._acls.keys()

    def dynamic_configs(self, kind: ResourceType, resource: str) -> Mapping[str, str]:
        """What was set on a resource itself."""
        return MappingProxyType(self._configs.get((kind, resource), {}))

    def config(self, kind: ResourceType, resource: str, key: str) -> DescribedConfig:
        """The value that holds for a key, and where it comes from.

        A topic falls back to the cluster's default for the broker's synonym. A broker falls back
        to the cluster's default for the same key. Both then fall back to the properties file, and
        to Kafka's default.

        Raises:
            KeyError: there is no such key.
        """
        known = KEYS[kind][key]
        chain = [*self._dynamic_chain(kind, resource, known), _default(known)]
        return DescribedConfig(known, chain[0][1], chain[0][2], tuple(chain))

    def configs(self, kind: ResourceType, resource: str) -> tuple[DescribedConfig, ...]:
        """Every key of a resource, sorted (DescribeConfigs)."""
        return tuple(self.config(kind, resource, key) for key in sorted(KEYS[kind]))

    def cluster_config(self, key: str) -> str:
        """The value of a broker key that holds for the cluster as a whole.

        Raises:
            KeyError: there is no such key.
        """
        return self.config(ResourceType.BROKER, CLUSTER_DEFAULT, key).value or ""

    def _dynamic_chain(
        self, kind: ResourceType, resource: str, key: ConfigKey
    ) -> Iterator[tuple[str, str | None, ConfigSourceNumber]]:
        own = self._configs.get((kind, resource), {})
        if key.name in own and (kind, resource) != (ResourceType.BROKER, CLUSTER_DEFAULT):
            topic = kind is ResourceType.TOPIC
            source = (
                ConfigSourceNumber.DYNAMIC_TOPIC_CONFIG
                if topic
                else ConfigSourceNumber.DYNAMIC_BROKER_CONFIG
            )
            yield key.name, own[key.name], source
        fallback = key.broker_synonym if kind is ResourceType.TOPIC else key.name
        default = self._configs.get((ResourceType.BROKER, CLUSTER_DEFAULT), {})
        if fallback is None:
            return
        if fallback in default:
            yield fallback, default[fallback], ConfigSourceNumber.DYNAMIC_DEFAULT_BROKER_CONFIG
        if fallback in self.static:
            yield fallback, self.static[fallback], ConfigSourceNumber.STATIC_BROKER_CONFIG

    def _named(
        self, keys: Mapping[PartitionKey, None]
    ) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic_id, number in list(keys):
            topic = self._topics[topic_id]
            yield topic, number, topic.partitions[number]

    # Replay: one method a record

    @singledispatchmethod
    def _replay(self, record: r.Record) -> None:
        raise r.RecordError(f"A {type(record).__name__} cannot be replayed.")

    @_replay.register
    def _(self, record: r.ControllerElected) -> None:
        self.controller, self.controller_epoch = record.controller, record.epoch

    @_replay.register
    def _(self, record: r.BrokerRegistered) -> None:
        self._brokers[record.broker] = RegisteredBroker(
            record.broker,
            record.epoch,
            record.incarnation,
            record.host,
            record.port,
            record.rack,
            tuple(map(sys.intern, record.log_dirs)),
        )

    @_replay.register
    def _(self, record: r.BrokerFenced) -> None:
        self._brokers[record.broker] = replace(self._brokers[record.broker], fenced=True)

    @_replay.register
    def _(self, record: r.BrokerUnfenced) -> None:
        self._brokers[record.broker] = replace(self._brokers[record.broker], fenced=False)

    @_replay.register
    def _(self, record: r.BrokerRemoved) -> None:
        del self._brokers[record.broker]
        self._configs.pop((ResourceType.BROKER, str(record.broker)), None)

    @_replay.register
    def _(self, record: r.LogDirsFailed) -> None:
        broker = self._brokers[record.broker]
        failed = tuple(sorted({*broker.offline_dirs, *record.log_dirs}))
        self._brokers[record.broker] = replace(broker, offline_dirs=failed)

    @_replay.register
    def _(self, record: r.TopicCreated) -> None:
        self._topics[record.topic_id] = TopicImage(record.topic, record.topic_id)
        self._names[record.topic] = record.topic_id

    @_replay.register
    def _(self, record: r.TopicDeleted) -> None:
        topic = self._topics[record.topic_id]
        for number in list(topic.partitions):
            self._put(topic, number, None)
        del self._topics[record.topic_id], self._names[topic.name]
        self._configs.pop((ResourceType.TOPIC, topic.name), None)

    @_replay.register
    def _(self, record: r.PartitionCreated) -> None:
        replicas = record.replicas
        isr = replicas if record.isr == replicas else record.isr
        log_dirs = tuple(map(sys.intern, record.log_dirs))
        topic = self._topics[record.topic_id]
        partition = PartitionImage(
            replicas,
            isr,
            record.leader,
            log_dirs,
            record.leader_epoch,
            record.partition_epoch,
            record.adding,
            record.removing,
            PartitionModeCode(record.mode),
        )
        self._put(topic, record.partition, partition)

    @_replay.register
    def _(self, record: r.PartitionChanged) -> None:
        topic, old = self._find(record.topic_id, record.partition)
        names = ("replicas", "adding", "removing", "isr", "leader", "log_dirs")
        changes = {name: getattr(record, name) for name in names}
        elected = record.leader is not None
        new = replace(
            old,
            **{name: value for name, value in changes.items() if value is not None},
            leader_epoch=old.leader_epoch + elected,
            partition_epoch=old.partition_epoch + 1,
        )
        self._put(topic, record.partition, new)

    @_replay.register
    def _(self, record: r.PartitionsDeletionScheduled) -> None:
        for number in record.partitions:
            topic, old = self._find(record.topic_id, number)
            deletion = DeletingPartition(record.delay_ms, record.created_ms)
            self._put(topic, number, replace(old, deletion=deletion))

    @_replay.register
    def _(self, record: r.PartitionsDeletionCancelled) -> None:
        for number in record.partitions:
            topic, old = self._find(record.topic_id, number)
            new = replace(
                old,
                deletion=None,
                mode=PartitionModeCode.READ_WRITE,
                partition_epoch=old.partition_epoch + 1,
            )
            self._put(topic, number, new)

    @_replay.register
    def _(self, record: r.PartitionModeChanged) -> None:
        topic, old = self._find(record.topic_id, record.partition)
        mode = PartitionModeCode(record.mode)
        new = replace(old, mode=mode, partition_epoch=old.partition_epoch + 1)
        self._put(topic, record.partition, new)

    @_replay.register
    def _(self, record: r.PartitionStateChanged) -> None:
        topic, old, deletion = self._find_deletion(record.topic_id, record.partition)
        deletion = replace(deletion, state=DeletionState(record.state))
        self._put(topic, record.partition, replace(old, deletion=deletion))

    @_replay.register
    def _(self, record: r.ReplicaStateChanged) -> None:
        topic, old, deletion = self._find_deletion(record.topic_id, record.partition)
        states = {replica.broker: replica for replica in deletion.replicas}
        states[record.broker] = ReplicaDeletion(
            record.broker, ReplicaState(record.state), record.at_ms
        )
        deletion = replace(deletion, replicas=tuple(states[broker] for broker in sorted(states)))
        self._put(topic, record.partition, replace(old, deletion=deletion))

    @_replay.register
    def _(self, record: r.PartitionRemoved) -> None:
        self._put(self._topics[record.topic_id], record.partition, None)

    @_replay.register
    def _(self, record: r.ConfigChanged) -> None:
        resource = (ResourceType(record.resource_type), record.resource)
        values = self._configs.setdefault(resource, {})
        if record.value is not None:
            values[record.key] = record.value
        else:
            values.pop(record.key, None)
        if not values:
            del self._configs[resource]

    @_replay.register
    def _(self, record: r.ThrottledReplicasRemoval) -> None:
        self.replicas_removal = record.topics

    @_replay.register
    def _(self, record: r.ThrottledRatesRemoval) -> None:
        self.rates_removal = record.brokers

    @_replay.register
    def _(self, record: r.ProducerIdsAllocated) -> None:
        self.next_producer_id = record.next_producer_id

    @_replay.register
    def _(self, record: r.SnapshotTaken) -> None:
        """Only the count of records changes, see `replay`."""

    @_replay.register
    def _(self, record: r.AclCreated) -> None:
        self._acls[_acl(record)] = None
        self.acl_changes += 1

    @_replay.register
    def _(self, record: r.AclRemoved) -> None:
        del self._acls[_acl(record)]
        self.acl_changes += 1

    def _find(self, topic_id: str, number: int) -> tuple[TopicImage, PartitionImage]:
        topic = self._topics[topic_id]
        return topic, topic.partitions[number]

    def _find_deletion(
        self, topic_id: str, number: int
    ) -> tuple[TopicImage, PartitionImage, DeletingPartition]:
        topic, partition = self._find(topic_id, number)
        if partition.deletion is None:
            raise KeyError((topic.name, number))
        return topic, partition, partition.deletion

    def _put(self, topic: TopicImage, number: int, new: PartitionImage | None) -> None:
        """Store or remove a partition, and keep the indexes true."""
        old = topic.partitions.get(number)
        key = (topic.topic_id, number)
        if new is None:
            del topic.partitions[number]
        else:
            topic.partitions[number] = new
        before = old.replicas if old else ()
        after = new.replicas if new else ()
        if before != after:
            for broker in before:
                self._hosted[broker].pop(key, None)
                if not self._hosted[broker]:
                    del self._hosted[broker]
            for broker in after:
                self._hosted.setdefault(broker, {})[key] = None
        _mark(self._moving, key, new is not None and new.reassigning)
        _mark(self._deleting, key, new is not None and new.deletion is not None)


def _mark(index: dict[PartitionKey, None], key: PartitionKey, present: bool) -> None:
    if present:
        index[key] = None
    else:
        index.pop(key, None)


def _acl(record: r.AclCreated | r.AclRemoved) -> Acl:
    return Acl(
        ResourceKind(record.resource_type),
        record.resource,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperationCode(record.operation),
        Permission(record.permission),
    )


def _default(key: ConfigKey) -> tuple[str, str | None, ConfigSourceNumber]:
    return key.name, key.default, ConfigSourceNumber.DEFAULT_CONFIG
