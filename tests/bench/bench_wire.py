"""Decoding 100,000 partitions: our columns next to kafka-python's objects, in one run."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from kshunt.backend.domain.cluster.columns import PartitionColumns
from kshunt.backend.wire import metadata, offsets_and_log_dirs
from tests.support.wire_answers import (
    Encoder,
    columns,
    endless,
    list_offsets_answer,
    log_dirs_answer,
    metadata_answer,
)

pytestmark = pytest.mark.bench

PARTITIONS = 100_000
ROUNDS = 9
SHAPES = [(10, 10_000), (2_000, 50)]
"""Topics, and partitions of each."""


def measured(title: str, theirs: Callable[[], Any], ours: Callable[[], Any]) -> None:
    """Print both medians in milliseconds, with the slowest round of each, and their ratio."""
    times: dict[str, list[float]] = {"kafka-python": [], "ours": []}
    theirs(), ours()
    for _ in range(ROUNDS):
        for name, call in (("kafka-python", theirs), ("ours", ours)):
            started = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - started) * 1000)
    median = {name: statistics.median(rounds) for name, rounds in times.items()}
    words = ", ".join(
        f"{name} {median[name]:.1f} ms (worst {max(rounds):.1f})" for name, rounds in times.items()
    )
    print(f"\n{title}: {words}; {median['kafka-python'] / median['ours']:.0f} times")


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def asked(request: pytest.FixtureRequest) -> PartitionColumns:
    """The partitions of a cluster of this shape."""
    topics, partitions = request.param
    return columns({f"topic-{n:05}": list(range(partitions)) for n in range(topics)})


def by_topic(asked: PartitionColumns) -> dict[str, list[int]]:
    return {topic: rows.tolist() for topic, rows in offsets_and_log_dirs.topic_runs(asked)}


def shape_of(asked: PartitionColumns) -> str:
    return f"{len(asked):,} partitions in {len(asked.topics):,} topics"


def test_list_offsets_answer(asked: PartitionColumns) -> None:
    """Both read the same bytes."""
    topics = {
        topic: [(p, 0, -1, p * 1000, 3) for p in rows] for topic, rows in by_topic(asked).items()
    }
    body = list_offsets_answer(Encoder(7, 6, endless([])), topics)
    measured(
        f"ListOffsets v7 answer, {shape_of(asked)}",
        lambda: ListOffsetsResponse.decode(body, version=7),
        lambda: offsets_and_log_dirs.decode_list_offsets(body, 7, asked),
    )


def test_list_offsets_request(asked: PartitionColumns) -> None:
    """kafka-python's time does not have in it the making of its objects."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    message = ListOffsetsRequest(
        replica_id=-2,
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=p, current_leader_epoch=-1, timestamp=-1)
                    for p in rows
                ],
            )
            for name, rows in by_topic(asked).items()
        ],
    )
    measured(
        f"ListOffsets v7 request, {shape_of(asked)}",
        lambda: message.encode(version=7),
        lambda: offsets_and_log_dirs.encode_list_offsets(asked, 7),
    )
    assert bytes(message.encode(version=7)) == offsets_and_log_dirs.encode_list_offsets(asked, 7)


def test_describe_log_dirs_answer(asked: PartitionColumns) -> None:
    """Two directories, half of the replicas in each."""
    dirs: list[Any] = []
    for half in (0, 1):
        topics = {
            topic: [(p, p * 1000, 0, False) for p in rows[half::2]]
            for topic, rows in by_topic(asked).items()
        }
        dirs.append((0, f"/disk-{half}", topics, (10**12, 10**11)))
    body = log_dirs_answer(Encoder(4, 2, endless([])), dirs)
    measured(
        f"DescribeLogDirs v4 answer, {shape_of(asked)}",
        lambda: DescribeLogDirsResponse.decode(body, version=4),
        lambda: offsets_and_log_dirs.decode_describe_log_dirs(body, 4, 1),
    )


@pytest.mark.parametrize("uneven", [0.0, 0.03, 1.0])
def test_metadata_answer(asked: PartitionColumns, uneven: float) -> None:
    """Three replicas each; of some partitions the last one is not in sync."""
    random = np.random.default_rng(8317)

    def entry(p: int) -> tuple[Any, ...]:
        replicas = [p % 30, (p + 1) % 30, (p + 2) % 30]
        # Where all are uneven, no two neighbours have one shape.
        behind = p % 2 == 0 if uneven == 1.0 else random.random() < uneven
        return (0, p, replicas[0], 5, replicas, replicas[: 2 if behind else 3], [])

    topics = {topic: (0, [entry(p) for p in rows]) for topic, rows in by_topic(asked).items()}
    listed = [(n, f"broker-{n}", 9092, f"rack-{n % 3}") for n in range(30)]
    body = metadata_answer(Encoder(12, 9, endless([])), listed, topics)
    measured(
        f"Metadata v12 answer, {shape_of(asked)}, {uneven:.0%} uneven",
        lambda: MetadataResponse.decode(body, version=12),
        lambda: metadata.decode_metadata(body, 12),
    )
