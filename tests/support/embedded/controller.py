"""A controller without a network: it replays decisions immediately, and keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeVar

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.brokers import (
    Registration,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.decision import DecidedItem, Decision, KafkaError
from kshunt.backend.embedded.controller.isr import IsrReport, alter_partition
from kshunt.backend.embedded.controller.shrink import replica_deletion
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage
from kshunt.backend.embedded.metadata.records import (
    BrokerRemoved,
    Record,
    ReplicaState,
    ResourceType,
)

Item = TypeVar("Item")


class Controller:
    """An image, the records that made it, and the commands that tests need most."""

    def __init__(self, brokers: int = 4, log_dirs: tuple[str, ...] = ("/a", "/b")) -> None:
        self.image = ClusterImage()
        self.log: list[Record] = []
        self.random = Random(7)
        for broker in range(1, brokers + 1):
            self.start(broker, log_dirs)

    def do(self, decision: Decision[Item]) -> Decision[Item]:
        """Replay what was decided."""
        for record in decision.records:
            self.image.replay(record)
            self.log.append(record)
        return decision

    def start(self, broker: int, log_dirs: tuple[str, ...] = ("/a", "/b")) -> None:
        request = Registration(broker, f"i{len(self.log)}", "host", 9092, None, log_dirs)
        self.do(register_broker(self.image, request))
        self.do(unfence_broker(self.image, broker))

    def create(self, name: str, *replicas: Sequence[int], **configs: str) -> None:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, assignments=dict(enumerate(replicas)), configs=values)
        answer = self.do(create_topics(self.image, [topic], self.random))
        assert answer.results[0].ok, answer

    def at(self, topic: str, number: int = 0) -> PartitionImage:
        partition = self.image.partition(topic, number)
        assert partition is not None
        return partition

    def report(self, topic: str, number: int, isr: Iterable[int]) -> Decision[TopicPartition]:
        """The leader says who is in sync."""
        old = self.at(topic, number)
        report = IsrReport(old.leader_epoch, old.partition_epoch, tuple(isr))
        epoch = self.image.brokers[old.leader].epoch
        item = TopicPartition(topic, number)
        return self.do(alter_partition(self.image, old.leader, epoch, {item: report}))

    def catch_up(self, topic: str, number: int = 0) -> Decision[TopicPartition]:
        """Every online replica is in sync."""
        replicas = self.at(topic, number).replicas
        return self.report(topic, number, [b for b in replicas if self.image.is_online(b)])

    def set(self, kind: ResourceType, name: str, **values: str) -> None:
        changes = [
            ConfigChange(key.replace("_", "."), ConfigOp.SET, value)
            for key, value in values.items()
        ]
        answer = incremental_alter_configs(self.image, {ConfigResource(kind, name): changes})
        assert self.do(answer).results[0].ok, answer

    def configs(self, kind: ResourceType, name: object) -> Mapping[str, str]:
        return dict(self.image.dynamic_configs(kind, str(name)))


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


def errors(decision: Decision[Item]) -> list[KafkaError]:
    return [result.error for result in decision.results]


def replayed(records: Iterable[Record]) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.replay(record)
    return image


def remove_broker(image: ClusterImage, broker: int) -> Decision[int]:
    """Unregister a broker (UnregisterBroker). Its replicas stay listed, offline."""
    if broker not in image.brokers:
        return Decision.of([], [DecidedItem(broker, KafkaError.BROKER_ID_NOT_REGISTERED)])
    fenced = fence_broker(image, broker)
    return Decision.of([*fenced.records, BrokerRemoved(broker)], [DecidedItem(broker)])


def replicas_to_delete(image: ClusterImage, broker: int) -> Iterator[tuple[str, TopicPartition]]:
    """What a broker must delete and has not answered for: topic id and partition."""
    for topic, number, partition in image.deleting():
        found = replica_deletion(partition.deletion, broker)
        if found is not None and found.state is ReplicaState.DELETION_STARTED:
            yield topic.topic_id, TopicPartition(topic.name, number)
