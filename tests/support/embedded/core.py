"""An embedded cluster without sockets, for tests: brokers, topics, moves, and what must hold."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.brokers import Registration
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.throttled_reassign import UNTHROTTLED, reassign_partitions
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics, delete_topics
from kshunt.backend.embedded.core.cluster_core import Core, RecordStore, Timing
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.data.hosted_partition import BatchSink, HostedPartition
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.logs.batch import BatchRecord, build_batch
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage
from kshunt.backend.embedded.metadata.records import NO_LEADER, ReplicaState, ResourceType
from kshunt.backend.embedded.replication.columns import NOWHERE

MB = 1_000_000
DIRS = ("/d1", "/d2")


class SmallCluster:
    """Brokers 1 to n with two directories each, 100 MB/s networks, and handy commands."""

    def __init__(
        self,
        brokers: int = 4,
        *,
        seed: int = 1,
        store: RecordStore | None = None,
        sink: BatchSink | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.image = ClusterImage()
        fast = Hardware(100 * MB, 100 * MB, 400 * MB)
        self.plane = DataPlane(
            self.image,
            0,
            hardware=dict.fromkeys(range(1, brokers + 1), fast),
            grain_ms=10,
            seed=seed,
            sink=sink,
        )
        self.core = Core(self.image, self.plane, Random(seed), store=store, timing=timing)
        self.starts = 0
        self.brokers = brokers

    def start(self) -> None:
        """Start every broker, together."""
        self.core.start_all([self.registration(b) for b in range(1, self.brokers + 1)])

    def registration(self, broker: int) -> Registration:
        self.starts += 1
        return Registration(broker, f"s{self.starts}", "127.0.0.1", 9000 + broker, None, DIRS)

    def restart(self, broker: int) -> None:
        self.core.start_all([self.registration(broker)], together=False)

    def create(self, topic: str, *replicas: Sequence[int], **configs: str) -> None:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(topic, assignments=dict(enumerate(replicas)), configs=values)
        answer = self.core.commit(create_topics(self.image, [new], self.core.random))
        assert answer.results[0].ok, answer

    def fill(self, topic: str, size_bytes: float, rate_bytes_per_s: float = 0.0) -> None:
        found = self.image.topic(topic)
        assert found is not None
        keys = [(found.topic_id, number) for number in found.partitions]
        self.plane.fill(keys, [size_bytes] * len(keys), 1_000)
        self.plane.set_traffic(keys, [rate_bytes_per_s] * len(keys), 1_000)

    def move(
        self, topic: str, number: int, *target: int, throttle_bytes_per_s: int = UNTHROTTLED
    ) -> None:
        item = TopicPartition(topic, number)
        decision = reassign_partitions(
            self.image, {item: target}, throttle_bytes_per_s=throttle_bytes_per_s
        )
        assert self.core.commit(decision).results[0].ok, decision

    def drop(self, topic: str) -> None:
        answer = self.core.commit(delete_topics(self.image, [topic]))
        assert answer.results[0].ok, answer

    def set(self, kind: ResourceType, name: str, **values: str) -> None:
        changes = [
            ConfigChange(key.replace("_", "."), ConfigOp.SET, value)
            for key, value in values.items()
        ]
        resource = ConfigResource(kind, name)
        answer = self.core.commit(incremental_alter_configs(self.image, {resource: changes}))
        assert answer.results[0].ok, answer

    def pass_s(self, seconds: float) -> None:
        self.core.advance(self.core.now_ms + int(seconds * 1000))

    def at(self, topic: str, number: int = 0) -> PartitionImage:
        found = self.image.partition(topic, number)
        assert found is not None
        return found

    def held(self, topic: str, number: int = 0) -> HostedPartition:
        found = self.plane.named(topic, number)
        assert found is not None
        return found

    def end(self, topic: str, broker: int, number: int = 0) -> int:
        end = self.plane.log_end_offset(self.held(topic, number), broker)
        assert end is not None, f"broker {broker} has no replica of {topic}-{number}"
        return end

    def write(self, topic: str, count: int = 1, number: int = 0, size_bytes: int = 100) -> int:
        """Append a real batch; returns its base offset."""
        data = build_batch([BatchRecord(self.core.now_ms, b"k", b"v" * size_bytes)] * count)
        return self.plane.append(self.held(topic, number), data, 1 << 20).base_offset


def check_plane(cluster: SmallCluster) -> None:
    """The data plane is what the image says; shares nothing with how it came to be so."""
    image, plane = cluster.image, cluster.plane
    table = plane.replication.replicas
    seen = 0
    for topic in image.topics.values():
        for number, wanted in topic.partitions.items():
            held = plane.held((topic.topic_id, number))
            assert held is not None, f"{topic.name}-{number} has no data"
            expected = set(wanted.replicas) - _deleted(wanted)
            assert set(held.replicas) == expected, f"{topic.name}-{number}"
            in_sync = {broker for broker, row in held.replicas.items() if table.in_isr[row]}
            assert in_sync == set(wanted.isr) & expected, f"{topic.name}-{number}"
            leader = int(plane.replication.partitions.leader[held.row])
            assert leader == held.replicas.get(wanted.leader, NOWHERE)
            for broker, row in held.replicas.items():
                assert int(table.partition[row]) == held.row
                assert plane.broker_id(int(table.broker[row])) == broker
                path = wanted.log_dir(broker)
                assert path == "" or plane.dir_path(int(table.log_dir[row])) == path
            if wanted.leader != NO_LEADER and held.log is not None:
                assert held.log.end_offset <= cluster.end(topic.name, wanted.leader, number)
            seen += len(held.replicas)
    assert seen == int(np.count_nonzero(table.partition != NOWHERE))


def _deleted(wanted: PartitionImage) -> set[int]:
    deletion = wanted.deletion
    done = ReplicaState.DELETION_SUCCESSFUL
    return {one.broker for one in (deletion.replicas if deletion else ()) if one.state is done}
