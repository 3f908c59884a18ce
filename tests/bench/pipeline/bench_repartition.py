"""How fast a topic is copied, compared with a plain loop of librdkafka's.

    python -m tests.bench.pipeline.bench_repartition \\
        [--records N] [--bytes N] [--runs N] [--connector]

The loop is what MirrorMaker does, in one process: it consumes and produces, and knows nothing of
transactions, positions or headers. Both copy the same topic on the same brokers in turn, so the
machine's other work weighs on both. A session of Spark takes some seconds to start; that is told
apart, as a copy that lasts hours has it once.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kshunt.backend.pipeline.kernels.copying import Copying
from kshunt.backend.pipeline.kernels.partitioner import partitions_of_bytes
from kshunt.backend.pipeline.repartition.copy_batches import (
    QUICK_JAVA,
    SETTINGS,
    begun,
    copy,
    copy_cuts,
)
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from kshunt.backend.pipeline.spark.kafka_connector import connector_settings
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from tests.support.brokers.connector import connector_jars
from tests.support.brokers.launcher import RealKafka
from tests.support.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, RECORD_BYTES, RUNS = 300_000, 1_000, 3
SOURCE_PARTITIONS, TARGET_PARTITIONS = 8, 3
KEYS = 1_000_000

BATCH_RECORDS = 1_000_000


@pytest.mark.bench
@pytest.mark.kafka
@pytest.mark.spark
def test_a_copy_is_as_fast_as_a_plain_loop(kafka: RealKafka) -> None:
    measured(kafka.bootstrap_servers, RECORDS, RECORD_BYTES, RUNS)


@pytest.mark.bench
def test_keys_are_hashed_by_the_million() -> None:
    dice = random.Random(1)
    keys: list[bytes | None] = [dice.randbytes(dice.randrange(8, 40)) for _ in range(1_000)]
    began_s, rounds = time.process_time(), 200
    for _ in range(rounds):
        partitions_of_bytes(keys, 7)
    taken_s = time.process_time() - began_s
    print(f"\nmurmur2: {rounds * len(keys) / taken_s / 1e6:.1f} million keys/s of CPU, by 1,000")


def measured(servers: str, records: int, record_bytes: int, runs: int) -> None:
    """Copy in both ways in turn, and print how fast they were."""
    clients: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
    create(servers, "bench", SOURCE_PARTITIONS)
    fill(clients, "bench", records, record_bytes)
    found: dict[str, list[float]] = {"librdkafka loop": [], "kshunt pipeline repartition": []}
    with session(SETTINGS, QUICK_JAVA) as spark:
        # Everything is loaded and connected before the first run that counts.
        spark_copy(spark, clients, "warm", records // 10)
        for run in range(runs):
            create(servers, f"loop-{run}", TARGET_PARTITIONS)
            found["librdkafka loop"].append(looped(clients, "bench", f"loop-{run}", records))
            taken_s = spark_copy(spark, clients, f"run-{run}", None)
            found["kshunt pipeline repartition"].append(taken_s)
    for name, times in found.items():
        told(name, records, record_bytes, times)
    loop, ours = (median(times) for times in list(found.values())[:2])
    print(f"repartition / loop: {loop / ours:.2f} (medians of {runs})")


def measured_connector(servers: str, records: int, record_bytes: int, runs: int) -> None:
    """What it takes to read the same by Spark's connector; its Java may take its time to be fast.

    It is for a process of its own, as the Java of a session stays.
    """
    clients: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
    create(servers, "bench", SOURCE_PARTITIONS)
    fill(clients, "bench", records, record_bytes)
    with session(connector_settings(connector_jars(), ""), "") as spark:
        times = [connector_read(spark, clients) for _ in range(runs)]
    told("Spark's connector into Python, nothing written", records, record_bytes, times)


def told(name: str, records: int, record_bytes: int, times: list[float]) -> None:
    rates = sorted(records / taken_s for taken_s in times)
    usual = median(rates)
    all_rates = ", ".join(f"{rate:,.0f}" for rate in rates)
    print(f"{name}: {usual:,.0f} records/s, {usual * record_bytes / 1e6:.1f} MB/s (of {all_rates})")


@contextmanager
def session(others: Any, java_options: str) -> Iterator[SparkSession]:
    began_s = time.monotonic()
    settings = PipelineSettings(
        master="local[2]", memory="1g", java_options=java_options, others=others
    )
    spark = start_session(settings)
    print(f"\na session of Spark: {time.monotonic() - began_s:.1f} s")
    try:
        yield spark
    finally:
        spark.stop()


def create(servers: str, topic: str, partitions: int) -> None:
    """A topic with one replica a partition: what is measured is the clients."""
    create_topic(servers, topic, [[1 + n % 3] for n in range(partitions)], {"retention.ms": "-1"})


def fill(clients: Any, topic: str, records: int, record_bytes: int) -> None:
    producer = Producer({**clients, "linger.ms": 50, "partitioner": "murmur2_random"})
    dice = random.Random(1)
    values = [os.urandom(record_bytes) for _ in range(100)]
    for n in range(records):
        send(producer, topic, values[n % 100], b"key-%d" % dice.randrange(KEYS))
    assert producer.flush(120) == 0


def send(producer: Producer, *record: Any, **about: Any) -> None:
    while True:
        try:
            producer.produce(*record, **about)
            return
        except BufferError:
            producer.poll(0.1)


def looped(clients: Any, source: str, target: str, records: int) -> float:
    """Seconds of consuming and producing everything."""
    consumer = Consumer(
        {
            **clients,
            "group.id": "loop",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer(
        {**clients, "acks": "all", "linger.ms": 20, "partitioner": "murmur2_random"}
    )
    began_s = time.monotonic()
    consumer.assign([TopicPartition(source, p, 0) for p in range(SOURCE_PARTITIONS)])
    left = records
    while left:
        arrived = consumer.consume(1_000, 0.1)
        for message in arrived:
            forward(producer, target, message)
        left -= len(arrived)
        producer.poll(0)
    assert producer.flush(120) == 0
    taken_s = time.monotonic() - began_s
    consumer.close()
    return taken_s


def forward(producer: Producer, target: str, message: Message) -> None:
    assert message.error() is None
    headers: Any = message.headers() or []
    send(
        producer,
        target,
        message.value(),
        message.key(),
        timestamp=message.timestamp()[1],
        headers=headers,
    )


def spark_copy(spark: SparkSession, clients: Any, name: str, most: int | None) -> float:
    """Seconds of all batches of a copy; of a part of it, where `most` says so."""
    create(clients["bootstrap.servers"], name, TARGET_PARTITIONS)
    topics = TopicQuestions(clients)
    limit_bytes = topics.limit_bytes(name)
    plan = Copying(clients, "bench", name, name, TARGET_PARTITIONS, limit_bytes)
    until = {} if most is None else dict.fromkeys(range(SOURCE_PARTITIONS), most // 10)
    way = copy_cuts(topics.starts("bench"), until, topics.ends("bench"), [])
    began_s = time.monotonic()
    at = begun(topics, plan, way)
    for _ in copy(spark, plan, way, at, BATCH_RECORDS, threading.Event()):
        pass
    return time.monotonic() - began_s


def connector_read(spark: SparkSession, clients: Any) -> float:
    """Seconds until all records are in Python by way of Spark's connector."""
    options = {
        "kafka.bootstrap.servers": clients["bootstrap.servers"],
        "subscribe": "bench",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    frame = spark.read.format("kafka").options(**options).load()
    began_s = time.monotonic()

    def counted(batches: Any) -> Iterator[Any]:
        for batch in batches:
            yield batch.select(["partition"]).slice(0, 1)

    frame.mapInArrow(counted, "partition int").count()
    return time.monotonic() - began_s


def main() -> None:
    """On brokers of its own."""
    parser = argparse.ArgumentParser(description="Copy a topic, beside a plain loop.")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--bytes", type=int, default=RECORD_BYTES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--connector", action="store_true", help="only read, by Spark's connector")
    options = parser.parse_args()
    measure = measured_connector if options.connector else measured
    with RealKafka() as kafka:
        measure(kafka.bootstrap_servers, options.records, options.bytes, options.runs)


if __name__ == "__main__":
    main()
