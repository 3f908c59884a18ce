"""The fewest records that make an image again: what a long log is shortened to (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator

from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage


def image_records(image: ClusterImage) -> Iterator[r.Record]:
    """Records whose replay gives an equal image."""
    yield r.ControllerElected(image.controller, image.controller_epoch)
    for broker in image.brokers.values():
        yield r.BrokerRegistered(
            broker.id,
            broker.epoch,
            broker.incarnation,
            broker.host,
            broker.port,
            broker.rack,
            broker.log_dirs,
        )
        if broker.offline_dirs:
            yield r.LogDirsFailed(broker.id, broker.offline_dirs)
        if not broker.fenced:
            yield r.BrokerUnfenced(broker.id)
    for name, topic in image.topics.items():
        yield r.TopicCreated(name, topic.topic_id)
        for number, partition in topic.partitions.items():
            yield from _partition_records(topic.topic_id, number, partition)
    for kind, resource in image.configured:
        for key, value in image.dynamic_configs(kind, resource).items():
            yield r.ConfigChanged(kind, resource, key, value)
    for acl in image.acls:
        kinds = int(acl.kind), acl.name, int(acl.pattern)
        rights = int(acl.operation), int(acl.permission)
        yield r.AclCreated(*kinds, acl.principal, acl.host, *rights)
    yield r.ThrottledReplicasRemoval(image.replicas_removal)
    yield r.ThrottledRatesRemoval(image.rates_removal)
    yield r.ProducerIdsAllocated(image.controller, image.next_producer_id)
    yield r.SnapshotTaken(image.offset)


def _partition_records(topic_id: str, number: int, partition: PartitionImage) -> Iterator[r.Record]:
    yield r.PartitionCreated(
        topic_id,
        number,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.log_dirs,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.adding,
        partition.removing,
        int(partition.mode),
    )
    deletion = partition.deletion
    if deletion is None:
        return
    yield r.PartitionsDeletionScheduled(topic_id, (number,), deletion.delay_ms, deletion.created_ms)
    yield r.PartitionStateChanged(topic_id, number, deletion.state)
    for one in deletion.replicas:
        yield r.ReplicaStateChanged(topic_id, number, one.broker, one.state, one.at_ms)
