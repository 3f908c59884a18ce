"""Client CPU from the bytes of brokers' answers to a snapshot of 100,000 replicas.

The answers are written by kafka-python's own encoders; everything after the socket is ours.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import kafka.protocol.admin as admin_messages
import kafka.protocol.consumer as consumer_messages
import kafka.protocol.metadata as metadata_messages
import numpy as np
import pytest

from kshunt.backend.api.schema.frames.snapshot_writer import FrameWriter
from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.cluster.columns import PartitionColumns
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.replicas.snapshot import Replicas
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas, Throttles
from kshunt.backend.telemetry.sampling import replica_lags
from kshunt.backend.telemetry.sampling.catch_up_rates import CatchUpRates
from kshunt.backend.wire.metadata import decode_metadata
from kshunt.backend.wire.offsets_and_log_dirs import decode_describe_log_dirs, decode_list_offsets

pytestmark = pytest.mark.bench

BROKERS = 30
TOPICS = 834
PARTITIONS = 40
REPLICATION_FACTOR = 3
RUNS = 9
TARGET_MS = 250
METADATA_VERSION, OFFSETS_VERSION, DIRS_VERSION = 12, 7, 4


def replicas_of(topic: int, partition: int) -> list[int]:
    return [(topic * 7 + partition + step * 11) % BROKERS for step in range(REPLICATION_FACTOR)]


def metadata_answer() -> bytes:
    response = metadata_messages.MetadataResponse
    topic_class, broker_class = response.MetadataResponseTopic, response.MetadataResponseBroker
    partition_class = topic_class.MetadataResponsePartition
    topics = [
        topic_class(
            error_code=0,
            name=f"topic-{topic:05}",
            is_internal=False,
            partitions=[
                partition_class(
                    error_code=0,
                    partition_index=partition,
                    leader_id=replicas[0],
                    leader_epoch=5,
                    replica_nodes=replicas,
                    # One partition in twenty has a replica that is out of sync.
                    isr_nodes=replicas if partition % 20 else replicas[:2],
                    offline_replicas=[],
                )
                for partition in range(PARTITIONS)
                for replicas in [replicas_of(topic, partition)]
            ],
        )
        for topic in range(TOPICS)
    ]
    brokers = [
        broker_class(node_id=b, host=f"broker-{b}.example", port=9092, rack=f"r{b % 3}")
        for b in range(BROKERS)
    ]
    answer = response(
        throttle_time_ms=0, brokers=brokers, cluster_id="bench", controller_id=0, topics=topics
    )
    return bytes(answer.encode(version=METADATA_VERSION))


def asked_of(assignment: Assignment, broker: int) -> PartitionColumns:
    rows = np.flatnonzero(assignment.broker == broker)
    used, topic_index = np.unique(assignment.topic_index[rows], return_inverse=True)
    topics = tuple(assignment.topics[index] for index in used)
    return PartitionColumns(topics, topic_index.astype(np.int32), assignment.partition[rows])


def by_topic(asked: PartitionColumns) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, partition in zip(asked.topic_index, asked.partition, strict=True):
        found.setdefault(asked.topics[topic], []).append(int(partition))
    return list(found.items())


def offsets_answer(asked: PartitionColumns) -> bytes:
    response = consumer_messages.ListOffsetsResponse
    topic_class = response.ListOffsetsTopicResponse
    partition_class = topic_class.ListOffsetsPartitionResponse
    topics = [
        topic_class(
            name=topic,
            partitions=[
                partition_class(
                    partition_index=p, error_code=0, timestamp=-1, offset=p * 997, leader_epoch=5
                )
                for p in partitions
            ],
        )
        for topic, partitions in by_topic(asked)
    ]
    return bytes(response(throttle_time_ms=0, topics=topics).encode(version=OFFSETS_VERSION))


def dirs_answer(asked: PartitionColumns) -> bytes:
    response = admin_messages.DescribeLogDirsResponse
    result_class = response.DescribeLogDirsResult
    topic_class = result_class.DescribeLogDirsTopic
    partition_class = topic_class.DescribeLogDirsPartition
    results = [
        result_class(
            error_code=0,
            log_dir=f"/data/{half}",
            total_bytes=10**12,
            usable_bytes=10**11,
            topics=[
                topic_class(
                    name=topic,
                    partitions=[
                        partition_class(
                            partition_index=p,
                            partition_size=p * 10**6,
                            offset_lag=0,
                            is_future_key=False,
                        )
                        for p in partitions
                        if p % 2 == half
                    ],
                )
                for topic, partitions in by_topic(asked)
            ],
        )
        for half in (0, 1)
    ]
    answer = response(throttle_time_ms=0, error_code=0, results=results)
    return bytes(answer.encode(version=DIRS_VERSION))


class Answers:
    """What thirty brokers answer to one sweep."""

    def __init__(self) -> None:
        self.metadata = metadata_answer()
        assignment = decode_metadata(self.metadata, METADATA_VERSION).assignment
        self.asked = {broker: asked_of(assignment, broker) for broker in range(BROKERS)}
        self.offsets = {b: offsets_answer(asked) for b, asked in self.asked.items()}
        self.dirs = {b: dirs_answer(asked) for b, asked in self.asked.items()}


def build(
    answers: Answers, at_ms: int, rates: CatchUpRates
) -> tuple[ClusterState, replica_lags.RowIndex, Replicas]:
    """What the sampler does with one sweep's answers."""
    state = decode_metadata(answers.metadata, METADATA_VERSION)
    index = replica_lags.RowIndex(state.assignment)
    observed = replica_lags.nothing_observed(len(state.assignment))
    for broker, body in answers.offsets.items():
        asked = answers.asked[broker]
        decoded = decode_list_offsets(body, OFFSETS_VERSION, asked)
        replica_lags.observe_offsets(index, observed, broker, asked, decoded, at_ms)
    paths = {"/data/0": 0, "/data/1": 1}
    for broker, body in answers.dirs.items():
        columns = decode_describe_log_dirs(body, DIRS_VERSION, broker)
        replica_lags.observe_log_dirs(index, observed, broker, columns, paths, at_ms)
    ongoing = {
        TopicPartition("topic-00000", p): OngoingReassignment(
            TopicPartition("topic-00000", p), tuple(replicas_of(0, p)), (replicas_of(0, p)[2],), ()
        )
        for p in range(PARTITIONS)
    }
    throttled = ThrottledReplicas(ReplicaSet(everything=True), ReplicaSet.parse("0:22,1:23"))
    throttles = Throttles({}, {"topic-00000": throttled})
    rows = replica_lags.replicas(index, observed, ongoing, throttles, frozenset())
    return state, index, rates.update(index, rows)


def cpu_ms(run: Any) -> tuple[float, Any]:
    gc.collect()
    started = time.process_time()
    result = run()
    return (time.process_time() - started) * 1e3, result


def test_snapshot_of_100_000_replicas() -> None:
    answers = Answers()
    size = len(answers.metadata) + sum(
        map(len, [*answers.offsets.values(), *answers.dirs.values()])
    )
    rates = CatchUpRates()
    _, index, rows = build(answers, 1_000, rates)
    assert len(rows) == TOPICS * PARTITIONS * REPLICATION_FACTOR
    assert (rows.log_end_offset >= 0).all()
    assert (rows.size_bytes >= 0).all()
    times, encodings = [], []
    for run in range(RUNS):
        at_ms = 2_000 + run * 1_000
        taken, (_, index, rows) = cpu_ms(lambda at_ms=at_ms: build(answers, at_ms, rates))
        times.append(taken)
    from tests.support.snapshots import snapshot_of

    topics = index.assignment.topics
    for run in range(RUNS):
        writer, snapshot = FrameWriter(), snapshot_of(rows, run + 1, topics)
        encodings.append(cpu_ms(lambda w=writer, s=snapshot: w.write(s))[0])
    print(
        f"\nsnapshot of {len(rows):,} replicas from {size / 1e6:.1f} MB of answers of {BROKERS} "
        f"brokers: median {statistics.median(times):.0f} ms of CPU "
        f"(min {min(times):.0f}, max {max(times):.0f}; target {TARGET_MS})"
    )
    print(f"its first Arrow frame: median {statistics.median(encodings):.1f} ms of CPU")
