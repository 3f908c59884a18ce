"""The whole embedded cluster: an hour of `drain`, the cost of `huge`, records by librdkafka."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.running import run_cluster
from kshunt.backend.embedded.scenario.reading import load_scenario
from tests.support.topics import create_topic

pytestmark = pytest.mark.bench

HOUR_MS = 3_600_000
MB = 1e6
RECORDS = 100_000
RECORD_BYTES = 1_000
START_MS = 1_700_000_000_000
RUNS = 5
DEADLINE_S = 120.0


def test_an_hour_of_drain_with_its_controller() -> None:
    async def hour() -> float:
        scenario = load_scenario("drain")
        spec = ClusterSpec(plain_brokers(1), simulated=True)
        async with run_cluster(spec, scenario) as running:
            cluster = running.cluster
            partitions = sum(len(topic.partitions) for topic in cluster.image.topics.values())
            moving = len(cluster.image.reassignments())
            started_s = time.perf_counter()
            cluster.advance(HOUR_MS)
            took_s = time.perf_counter() - started_s
            print(
                f"\nan hour of drain, {len(cluster.image.brokers)} brokers, {partitions} "
                f"partitions, {moving} moves of which {len(cluster.image.reassignments())} are "
                f"left: {took_s:.2f} s"
            )
        return took_s

    taken_s = [asyncio.run(hour()) for _ in range(RUNS)]
    print(f"median {statistics.median(taken_s):.2f} s")


@contextmanager
def cluster_of(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], str, float]]:
    """`kshunt cluster` with its bootstrap servers, and after how many seconds it was ready."""
    command = [sys.executable, "-m", "kshunt", "cluster", *options]
    started_s = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().decode().split()
        took_s = time.monotonic() - started_s
        try:
            yield process, ready[1], took_s
        finally:
            process.terminate()


def resident_mb(pid: int, what: str) -> float:
    """Memory of a process; `VmRSS` is what it has, `VmHWM` the most that it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1000


def test_what_huge_costs() -> None:
    ready_s = []
    for _ in range(3):
        with cluster_of("--scenario", "huge") as (process, _, took_s):
            ready_s.append(took_s)
            used, most = resident_mb(process.pid, "VmRSS"), resident_mb(process.pid, "VmHWM")
    print(
        f"\nhuge: ready in {statistics.median(ready_s):.2f} s "
        f"({' '.join(f'{one:.2f}' for one in ready_s)}); {used:.0f} MB, at most {most:.0f} MB"
    )


@pytest.mark.parametrize("partitions", [1, 6])
def test_a_hundred_thousand_records(partitions: int) -> None:
    rates: dict[str, list[float]] = {"produce": [], "consume": []}
    with cluster_of("--brokers", "3") as (_, servers, _):
        for run in range(RUNS):
            topic = f"records-{run}"
            lists = [[(n + k) % 3 + 1 for k in range(3)] for n in range(partitions)]
            create_topic(servers, topic, lists)
            # A process of its own: the client is as large a part of the work as the cluster.
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                made, read = pool.apply(round_trip, (servers, topic, partitions))
            rates["produce"].append(made)
            rates["consume"].append(read)
    for what, found in rates.items():
        each = " ".join(f"{one:.0f}" for one in found)
        print(f"\n{partitions} partitions, {what}: {statistics.median(found):.0f} MB/s ({each})")


def round_trip(servers: str, topic: str, partitions: int) -> tuple[float, float]:
    """Produce with acks=all and read back; MB/s of both. Every record is compared."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    started_s = time.perf_counter()
    for n in range(RECORDS):
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % n)]
        while True:
            try:
                producer.produce(
                    topic,
                    value(n),
                    b"key-%d" % n,
                    n % partitions,
                    timestamp=START_MS + n,
                    headers=headers,
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    made_s = time.perf_counter() - started_s
    config = {"bootstrap.servers": servers, "group.id": topic, "log_level": 0}
    consumer = Consumer(config | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    started_s = time.perf_counter()
    following = list(range(partitions))
    count = 0
    while count < RECORDS:
        for message in consumer.consume(1_000, 0.1):
            place = message.partition() or 0
            n = following[place]
            assert message.key() == b"key-%d" % n
            assert message.value() == value(n)
            assert message.headers() == [("n", b"%d" % n)]
            assert message.timestamp()[1] == START_MS + n
            following[place] += partitions
            count += 1
    read_s = time.perf_counter() - started_s
    consumer.close()
    total = RECORDS * RECORD_BYTES / MB
    return total / made_s, total / read_s


def value(n: int) -> bytes:
    """The value of a record, different for each."""
    return b"%0*d" % (RECORD_BYTES, n)
