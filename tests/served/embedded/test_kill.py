"""`kshunt cluster --data`: killed with -9 at any time, it comes back with all it had promised."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.metadata import TopicPartition as Partition
from tests.support.admin import TIMEOUT_S, connected, lags_of
from tests.support.ports import first_of_free_ports
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
SCENARIO = """
title = "A move that takes minutes"
about = "Two partitions of 100 MB on two of four brokers."

[[brokers]]
count = 4
racks = ["a", "b"]

[[topics]]
name = "big"
partitions = 2
replication_factor = 2
bytes_per_partition = 100_000_000
brokers = [1, 2]
"""


@contextmanager
def cluster_process(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kshunt cluster` on a data folder, and its bootstrap servers."""
    scenario = folder / "scenario.toml"
    scenario.write_text(SCENARIO)
    command = [sys.executable, "-m", "kshunt", "cluster", "--scenario", str(scenario)]
    command += ["--data", str(folder / "data"), "--port-base", str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split()
            assert ready[:1] == ["ready"], f"it said {ready}"
            yield process, ready[1]
        finally:
            process.kill()


@pytest.fixture
def port() -> int:
    """The first of four ports in a row that are free."""
    return first_of_free_ports(4)


async def test_topics_throttles_moves_and_offsets_survive(tmp_path: Path, port: int) -> None:
    moving = Partition("big", 0)
    with cluster_process(tmp_path, port) as (process, servers):
        create_topic(servers, "real", [[1, 2, 3]])
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        for n in range(1000):
            producer.produce("real", f"v{n}".encode(), f"k{n}".encode(), headers={"n": str(n)})
        assert producer.flush(DEADLINE_S) == 0
        commit(servers, 321)
        async with connected(servers) as admin:
            options = ReassignOptions(throttle_bytes_per_s=2_000_000)
            outcome = await admin.reassignments.reassign({moving: [3, 4]}, options, {})
            assert outcome.results[moving].ok
            before = await lags_of(admin, moving)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    with cluster_process(tmp_path, port) as (_, servers):
        async with connected(servers) as admin:
            ongoing = await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)
            assert ongoing[moving].target == (3, 4)
            found = await admin.throttles.describe([1, 4], ["big"], timeout_s=TIMEOUT_S)
            assert found.rates[4].rate.follower_bytes_per_s == 2_000_000
            assert found.replicas["big"].followers
            after = await lags_of(admin, moving)
            assert 0 < after[4] <= before[4]
        messages = read(servers, 1000)
        assert [m.value() for m in messages] == [f"v{n}".encode() for n in range(1000)]
        assert [m.headers() for m in messages[-1:]] == [[("n", b"999")]]
        assert committed(servers) == 321


def test_no_acknowledged_record_is_lost(tmp_path: Path, port: int) -> None:
    acknowledged: list[int] = []
    with cluster_process(tmp_path, port) as (_, servers):
        create_topic(servers, "real", [[1, 2, 3]])
    stop = threading.Event()

    def write() -> None:
        config = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "log_level": 0}
        config |= {"enable.idempotence": True, "reconnect.backoff.max.ms": 100}
        producer = Producer(config)
        for n in range(1_000_000):
            if stop.is_set():
                break

            def told(error: KafkaError | None, _message: Message, number: int = n) -> None:
                if error is None:
                    acknowledged.append(number)

            producer.produce("real", str(n).encode(), on_delivery=told)
            producer.poll(0.001)
        producer.flush(DEADLINE_S)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for _ in range(3):
        with cluster_process(tmp_path, port) as (process, servers):
            more_than(acknowledged, len(acknowledged) + 50)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_S)
    with cluster_process(tmp_path, port) as (_, servers):
        more_than(acknowledged, len(acknowledged) + 50)
        stop.set()
        writer.join(DEADLINE_S)
        assert not writer.is_alive()
        found = [int(m.value() or b"") for m in read(servers, len(acknowledged))]
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found)), "an idempotent producer writes nothing twice"
    assert found == sorted(found)


def more_than(acknowledged: Sequence[int], count: int) -> None:
    wait_until(lambda: len(acknowledged) > count, DEADLINE_S, f"{count} records are acknowledged")


def consumer(servers: str) -> Consumer:
    config = {"bootstrap.servers": servers, "group.id": "survivor", "log_level": 0}
    return Consumer(config | {"enable.auto.commit": False})


def commit(servers: str, offset: int) -> None:
    reader = consumer(servers)
    reader.commit(offsets=[TopicPartition("real", 0, offset)], asynchronous=False)
    reader.close()


def committed(servers: str) -> int:
    reader = consumer(servers)
    [found] = reader.committed([TopicPartition("real", 0)], DEADLINE_S)
    reader.close()
    offset: int = found.offset
    return offset


def read(servers: str, at_least: int) -> list[Message]:
    """Every record of the topic."""
    reader = consumer(servers)
    reader.assign([TopicPartition("real", 0, OFFSET_BEGINNING)])
    _, end = reader.get_watermark_offsets(TopicPartition("real", 0), DEADLINE_S)
    assert end >= at_least
    found: list[Message] = []

    def enough() -> bool:
        found.extend(reader.consume(1000, 0.2))
        return len(found) >= end

    wait_until(enough, DEADLINE_S, f"{end} records are read")
    reader.close()
    return found
