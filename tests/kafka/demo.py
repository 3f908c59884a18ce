"""`make demo`: three real Kafka brokers, some data, a throttled reassignment, and the dashboard.

What it starts it stops: brokers, backend and folders are gone when the dashboard is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from backend.api.client import BackendClient
from backend.domain.cluster import TopicPartition
from backend.domain.plan import ReassignmentPlan
from tests.kafka.launcher import RealKafka, ensure_jars, missing_reason
from tests.serving import serving
from tests.support import create_topic, produce
from tui.__main__ import run

THROTTLE_BYTES_PER_S: Final = 500_000
RECORD_BYTES: Final = 10_000
RECORDS_PER_PARTITION: Final = 1_000
TRAFFIC_RECORDS_PER_S: Final = 5

TOPICS: Final[Mapping[str, Sequence[Sequence[int]]]] = {
    "payments": [[1, 2], [2, 1], [1, 2], [2, 1]],
    "orders": [[1, 2], [2, 1]],
    "clicks": [[3, 1], [1, 3], [2, 3]],
}
"""Topic to replicas by partition."""

MOVES: Final[Mapping[tuple[str, int], tuple[int, ...]]] = {
    ("payments", 0): (3, 2),
    ("payments", 1): (2, 3),
    ("payments", 2): (3, 2),
    ("orders", 1): (3, 1),
}
"""Partition to its new replicas: broker 3 takes over from brokers 1 and 2."""


def main() -> int:
    """Run the demo until the dashboard is closed."""
    missing = missing_reason()
    if missing is not None:
        sys.stderr.write(f"The demo needs real Kafka brokers: {missing}\n")
        return 1
    ensure_jars()
    _say("Starting three Kafka brokers …")
    with RealKafka() as kafka, tempfile.TemporaryDirectory(prefix="kshunt-demo-") as folder:
        _say("Writing 60 MB to three topics …")
        for topic, assignment in TOPICS.items():
            create_topic(kafka.bootstrap_servers, topic, assignment)
            for partition in range(len(assignment)):
                produce(
                    kafka.bootstrap_servers, topic, RECORDS_PER_PARTITION, RECORD_BYTES, partition
                )
        with serving(kafka.bootstrap_servers, Path(folder)) as address:
            plan = ReassignmentPlan({TopicPartition(*p): t for p, t in MOVES.items()})
            with BackendClient(address) as client, _traffic(kafka.bootstrap_servers):
                client.reassign(plan, throttle_bytes_per_s=THROTTLE_BYTES_PER_S)
                code = run(address)
                _say("Stopping the brokers …")
    return code


@contextmanager
def _traffic(bootstrap_servers: str) -> Iterator[None]:
    """Keep a little producer traffic on every topic, so that leaders move on."""
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        while not stop.wait(1 / TRAFFIC_RECORDS_PER_S):
            for topic in TOPICS:
                producer.produce(topic, os.urandom(RECORD_BYTES // 10))
            producer.poll(0)
        producer.flush(2)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(5)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # A closed SSH session must not leave brokers behind.
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    sys.exit(main())
