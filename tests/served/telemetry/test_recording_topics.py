"""Samples in topics, on the embedded cluster and on real Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message
from confluent_kafka import TopicPartition as Place

from kshunt.backend.admin.kafka.sample_producer import PARTITIONS, SampleProducer
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.domain.pipeline.sample_columns import replica_ids
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import ClusterUnreachable, ConfigError
from kshunt.backend.telemetry.recording.gaps import GapReason
from kshunt.backend.telemetry.recording.kafka_sink import TopicSink
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import running
from tests.support.recording.following import DEADLINE_S, Followed, following, recorded_moments
from tests.support.serving import STOP_DEADLINE_S, serve_process
from tests.support.topics import create_topic
from tests.support.waiting import wait_until, wait_until_async


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running(ClusterSpec(plain_brokers(3), seed=3)) as cluster:
        create_topic(cluster.bootstrap_servers, "resting", [[2, 3]] * 4)
        yield cluster.bootstrap_servers


Rows: TypeAlias = list[dict[str, Any]]


def consumed(servers: str, topic: str, enough: Callable[[Rows], bool]) -> Rows:
    """Rows of a topic until there are enough, each with its key and time checked.

    They are in order within a partition only, so a count says nothing of which ones are there.
    """
    settings = {"group.id": "x", "log_level": 0, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    found: Rows = []
    places = [Place(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]

    with closing(consumer):
        consumer.assign(places)

        def all_there() -> bool:
            for message in consumer.consume(1_000, 0.1):
                if message.error() is not None:
                    # A broker that does not know the new topic yet: from the beginning again.
                    found.clear()
                    consumer.assign(places)
                    return False
                found.append(checked(message))
            return enough(found)

        wait_until(all_there, DEADLINE_S, f"enough rows of {topic}, of {found}")
    return found


def checked(message: Message) -> dict[str, Any]:
    """The row of a record, whose key and time say the same."""
    row: dict[str, Any] = json.loads(message.value() or b"")
    assert message.key() == b"%d" % row["rid" if "rid" in row else "broker"]
    assert message.timestamp()[1] == row["at"]
    return row


def resting_of(rows: Rows) -> Rows:
    return [row for row in rows if row["topic"] == "resting"]


def check_topics(servers: str, tmp_path: Path, topic: str) -> None:
    """A backend of its own process writes samples to topics."""
    with serve_process(servers, tmp_path / "s", "--samples-topic", topic) as process:
        consumed(
            servers,
            f"{topic}-replicas",
            lambda rows: {row["partition"] for row in resting_of(rows)} == {0, 1, 2, 3},
        )
        consumed(
            servers, f"{topic}-brokers", lambda rows: {row["broker"] for row in rows} == {1, 2, 3}
        )
        process.terminate()
        process.wait(STOP_DEADLINE_S)
    # The topics of the samples have replicas too, and some are seen before they are there.
    rows = consumed(servers, f"{topic}-replicas", lambda rows: len(resting_of(rows)) >= 4)
    resting = resting_of(rows)
    for row in resting:
        one = [(row["topic"], row["partition"], row["broker"])]
        assert row["rid"] == rid_of(*one[0])
        assert row["in_isr"] is True
        assert "cause" not in row
    keys = [(row["at"], row["rid"]) for row in rows]
    assert len(keys) == len(set(keys))


def rid_of(topic: str, partition: int, broker: int) -> int:
    return int(replica_ids([topic], *(np.array([n]) for n in (0, partition, broker)))[0])


def test_samples_go_to_topics_of_an_embedded_cluster(servers: str, tmp_path: Path) -> None:
    check_topics(servers, tmp_path, "samples")


@pytest.mark.kafka
def test_samples_go_to_topics_of_real_kafka(kafka: RealKafka, tmp_path: Path) -> None:
    create_topic(kafka.bootstrap_servers, "resting", [[2, 3]] * 4)
    check_topics(kafka.bootstrap_servers, tmp_path, "recorded")


def topic_sink(servers: str, delivery_s: float) -> TopicSink:
    producer = SampleProducer(servers, load_client_config(None), delivery_s)
    return TopicSink("lost", producer, 1)


async def delivered(followed: Followed) -> None:
    """Publish a moment, and wait until the cluster has it."""
    await recorded_moments(followed, 1)
    await wait_until_async(
        lambda: followed.recorder.status.written_ms == followed.last.taken_ms,
        DEADLINE_S,
        "the cluster has it",
    )


async def test_what_the_cluster_does_not_take_is_counted_as_lost() -> None:
    with running(ClusterSpec(plain_brokers(1))) as cluster:
        sink = topic_sink(cluster.bootstrap_servers, 1.0)
        async with following(None, sink, brokers_s=1e9) as followed:
            recorder = followed.recorder
            await delivered(followed)
            before = recorder.status.rows_lost
            cluster.call(lambda here: here.stop_broker(1))
            await recorded_moments(followed, 1)
            # Whether the topics can be looked for meanwhile or not: it was handed over.
            await wait_until_async(
                lambda: recorder.status.rows_lost == before + 6, DEADLINE_S, "it is counted"
            )
            assert {gap.why for gap in recorder.status.gaps} == {GapReason.LOST}


async def test_what_was_handed_over_and_is_let_go_at_the_end_is_counted() -> None:
    with running(ClusterSpec(plain_brokers(1))) as cluster:
        sink = topic_sink(cluster.bootstrap_servers, 300.0)
        async with following(None, sink, brokers_s=1e9) as followed:
            recorder = followed.recorder
            await delivered(followed)
            cluster.call(lambda here: here.stop_broker(1))
            await recorded_moments(followed, 1)
            await wait_until_async(
                lambda: recorder.status.rows_written == 8 + 6, DEADLINE_S, "it is handed over"
            )
        await wait_until_async(
            lambda: recorder.status.rows_lost == 6, DEADLINE_S, "the writer has ended"
        )


def test_a_cluster_that_is_not_there_is_unreachable_and_a_bad_setting_is_said() -> None:
    producer = SampleProducer("127.0.0.1:1", load_client_config(None), call_s=1.0)
    with pytest.raises(ClusterUnreachable, match="topics of the samples"):
        producer.ensure(["a"], 1)
    producer.close()
    bad = SampleProducer("127.0.0.1:1", load_client_config(None), -1.0)
    with pytest.raises(ConfigError, match="rejects the configuration"):
        bad.ensure(["a"], 1)
