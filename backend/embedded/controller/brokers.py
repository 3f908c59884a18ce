"""Brokers come, fall silent, return and go; their directories fail.

Kafka's ClusterControlManager and `ReplicationControlManager.generateLeaderAndIsrUpdates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    PartitionChangeBuilder,
    draft,
    is_being_deleted,
    records_of,
)
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import RegisteredBroker
from kshunt.backend.embedded.metadata.records import (
    NO_DIR,
    NO_LEADER,
    BrokerFenced,
    BrokerRegistered,
    BrokerUnfenced,
    LogDirsFailed,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
)

PRODUCER_ID_BLOCK = 1_000
"""How many producer ids a broker gets at a time (Kafka's PRODUCER_ID_BLOCK_SIZE)."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself when it starts."""

    broker: int
    incarnation: str
    """Unique to this start of the process."""
    host: str
    port: int
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()
    """Its working directories."""


def register_broker(image: ClusterImage, request: Registration) -> Decision[int]:
    """Take a broker in, fenced until `unfence_broker`; its epoch is the record's offset.

    An active broker that registers again starts over, so what it led moves away.
    DUPLICATE_BROKER_REGISTRATION if another process with this id is active: fence it first.
    """
    broker = request.broker
    known = image.brokers.get(broker)
    if known and not known.fenced and known.incarnation != request.incarnation:
        message = "Another broker is registered with that broker id."
        return _failed(broker, KafkaError.DUPLICATE_BROKER_REGISTRATION, message)
    record = BrokerRegistered(
        broker,
        image.offset + 1,
        request.incarnation,
        request.host,
        request.port,
        request.rack,
        request.log_dirs,
    )
    was_active = known is not None and not known.fenced
    moves = _without(image, broker, lambda _: True) if was_active else ()
    return Decision.of(with_removal(image, [record, *moves]), [DecidedItem(broker)])


def unfence_broker(image: ClusterImage, broker: int) -> Decision[int]:
    """A broker is ready: partitions without a leader that it can lead are led again."""
    state = image.brokers.get(broker)
    if state is None:
        return _unregistered(broker)
    if not state.fenced:
        return Decision.of([], [DecidedItem(broker)])
    dirs = state.offline_dirs

    def online(candidate: int, log_dir: str) -> bool:
        back = candidate == broker and log_dir not in dirs
        return back or image.is_online(candidate, log_dir)

    waiting = (
        draft(image, topic, number, online=online)
        for topic, number, partition in image.hosted(broker)
        if partition.leader == NO_LEADER and not is_being_deleted(partition)
    )
    changes = records_of(_completed(waiting))
    records = with_removal(image, [BrokerUnfenced(broker), *changes])
    return Decision.of(records, [DecidedItem(broker)])


def fence_broker(image: ClusterImage, broker: int) -> Decision[int]:
    """A broker stopped or went silent: it leaves every ISR and leads nothing any more."""
    state = image.brokers.get(broker)
    if state is None:
        return _unregistered(broker)
    if state.fenced:
        return Decision.of([], [DecidedItem(broker)])
    records = [BrokerFenced(broker), *_without(image, broker, lambda _: True)]
    return Decision.of(with_removal(image, records), [DecidedItem(broker)])


def fail_log_dirs(image: ClusterImage, broker: int, log_dirs: Sequence[str]) -> Decision[int]:
    """Directories of a broker failed (KIP-112, KIP-858): their replicas are offline.

    A broker without any working directory stops, as Kafka's does. LOG_DIR_NOT_FOUND if the
    broker has no such directory.
    """
    state = image.brokers.get(broker)
    if state is None:
        return _unregistered(broker)
    if unknown := sorted(set(log_dirs) - set(state.log_dirs)):
        message = f"Broker {broker} has no log directory {unknown[0]}."
        return _failed(broker, KafkaError.LOG_DIR_NOT_FOUND, message)
    failed = set(log_dirs) - set(state.offline_dirs)
    if not failed:
        return Decision.of([], [DecidedItem(broker)])
    record = LogDirsFailed(broker, tuple(sorted(failed)))
    if set(state.online_dirs) <= failed and not state.fenced:
        stop: list[Record] = [BrokerFenced(broker), *_without(image, broker, lambda _: True)]
        return Decision.of(with_removal(image, [record, *stop]), [DecidedItem(broker)])
    changes = _without(image, broker, lambda log_dir: log_dir in failed)
    return Decision.of(with_removal(image, [record, *changes]), [DecidedItem(broker)])


def assign_log_dirs(
    image: ClusterImage, broker: int, wanted: Mapping[TopicPartition, str]
) -> Decision[TopicPartition]:
    """A broker says in which directories replicas lie (KIP-858, AssignReplicasToDirs)."""
    state = image.brokers.get(broker)
    if state is None:
        return Decision(error=KafkaError.BROKER_ID_NOT_REGISTERED, message=_no_broker(broker))
    records: list[Record] = []
    results: list[DecidedItem[TopicPartition]] = []
    for item, log_dir in wanted.items():
        try:
            records += _assigned(image, state, item, log_dir)
            results.append(DecidedItem(item))
        except ItemRefused as refusal:
            results.append(DecidedItem.refused(item, refusal))
    return Decision.of(with_removal(image, records), results)


def allocate_producer_ids(image: ClusterImage, broker: int) -> Decision[int]:
    """Give a broker the next block of producer ids; it begins at `image.next_producer_id`."""
    if broker not in image.brokers:
        return _unregistered(broker)
    record = ProducerIdsAllocated(broker, image.next_producer_id + PRODUCER_ID_BLOCK)
    return Decision.of([record], [DecidedItem(broker)])


def _assigned(
    image: ClusterImage, broker: RegisteredBroker, item: TopicPartition, log_dir: str
) -> Iterator[PartitionChanged]:
    topic = image.topic(item.topic)
    partition = image.partition(*item)
    if topic is None or partition is None or broker.id not in partition.replicas:
        message = f"Broker {broker.id} does not have a replica of {item}."
        raise ItemRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, message)
    if log_dir not in broker.log_dirs:
        message = f"Broker {broker.id} has no log directory {log_dir}."
        raise ItemRefused(KafkaError.LOG_DIR_NOT_FOUND, message)
    change = draft(image, topic, item.partition)
    change.log_dirs[broker.id] = log_dir
    if not is_being_deleted(partition):
        if log_dir in broker.offline_dirs:
            change.shrink([broker.id])
        change.complete()
    return records_of([change])


def _without(
    image: ClusterImage, broker: int, lost: Callable[[str], bool]
) -> Iterator[PartitionChanged]:
    """What becomes of the partitions whose replica on a broker is lost, by its directory."""

    def online(candidate: int, log_dir: str) -> bool:
        return not (candidate == broker and lost(log_dir)) and image.is_online(candidate, log_dir)

    hit = (
        draft(image, topic, number, online=online)
        for topic, number, partition in image.hosted(broker)
        if lost(partition.log_dir(broker) or NO_DIR) and not is_being_deleted(partition)
    )
    return records_of(_completed(hit, gone=(broker,)))


def _completed(
    drafts: Iterable[PartitionChangeBuilder], gone: Sequence[int] = ()
) -> Iterator[PartitionChangeBuilder]:
    for one in drafts:
        one.shrink(gone)
        one.complete()
        yield one


def _no_broker(broker: int) -> str:
    return f"Broker ID {broker} is not currently registered"


def _unregistered(broker: int) -> Decision[int]:
    return _failed(broker, KafkaError.BROKER_ID_NOT_REGISTERED, _no_broker(broker))


def _failed(broker: int, error: KafkaError, message: str) -> Decision[int]:
    return Decision((), (DecidedItem(broker, error, message),))
