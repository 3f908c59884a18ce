"""What a backend answers next to 2,000 slow clients, and how long its event loop is held up."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.limits import LIMITS
from tests.support.embedded.background import running
from tests.support.faults.slow_clients import HALF_BODY, HALF_HEAD, more_descriptors, serving_with
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.bench

CLIENTS = 2_000
ASKED = 60
DESCRIPTORS = 1_024
TARGET_S = 1.0
TARGET_STALL_MS = 100.0
TOPICS = 10
PARTITIONS = LIMITS.partitions_per_request // TOPICS
BROKERS = 6
SETTLE_S = 2.0
"""After an answer, for what it began to show."""


def load() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


# --- the soak


class Slow:
    """`count` clients that say little; for each that is closed another one connects."""

    def __init__(self, path: str, count: int) -> None:
        self._path = path
        self._count = count
        self._ended = threading.Event()
        self.came = 0
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(4)]

    def __enter__(self) -> Slow:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30.0)

    def _run(self, number: int) -> None:
        said = (b"", HALF_HEAD, HALF_BODY, HALF_BODY)[number]
        held: list[socket.socket] = []
        while not self._ended.is_set():
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.settimeout(1.0)
            with suppress(OSError):
                one.connect(self._path)
                one.sendall(said)
                self.came += 1
            held.append(one)
            while len(held) > self._count // len(self._threads):
                held.pop(0).close()
            # 2,000 within a few seconds; then another 2,000 every ten seconds, for the backend
            # closes each after that time.
            self._ended.wait(0.004 if self.came < self._count else 0.02)
        for one in held:
            one.close()


def test_readyz_beside_slow_clients(tmp_path: Path) -> None:
    more_descriptors(8_192)
    path = tmp_path / "k.sock"
    with (
        running(ClusterSpec(brokers=plain_brokers(3))) as cluster,
        serving_with(DESCRIPTORS, cluster.bootstrap_servers, path),
        Slow(str(path), CLIENTS) as slow,
    ):
        wait_until(lambda: slow.came >= CLIENTS, 120.0, "all have come")
        took_s, again = [], 0
        for _ in range(ASKED):
            transport = httpx.HTTPTransport(uds=str(path))
            with httpx.Client(base_url="http://kshunt", transport=transport, timeout=60.0) as http:
                began_s = time.perf_counter()
                while not _answered(http):
                    again += 1
                took_s.append(time.perf_counter() - began_s)
    lines = (tmp_path / "k.log").read_text().count("\n")
    print(f"\n{CLIENTS} slow clients, {DESCRIPTORS} descriptors, {slow.came} came; {load()}")
    print(
        f"  /readyz: median {statistics.median(took_s) * 1e3:.0f} ms, longest "
        f"{max(took_s) * 1e3:.0f} ms (target {TARGET_S:g} s); {lines} lines of log, asked again "
        f"{again} times"
    )


def _answered(http: httpx.Client) -> bool:
    """Whether a backend answers; one that is out of places may close the connection."""
    with suppress(httpx.TransportError):
        return http.get("/readyz").status_code == 200
    return False


# --- the longest stall


@dataclass(frozen=True)
class Stall:
    """One time that the event loop was held up."""

    ended_s: float
    ms: float
    worked_ms: float
    """Of it, processor time of the backend."""


def stalls(file: Path, since_s: float) -> list[Stall]:
    rows = [[float(value) for value in line.split()] for line in file.read_text().splitlines()]
    found = [Stall(row[0], row[1] * 1e3, row[2] * 1e3) for row in rows if len(row) == 3]
    return [one for one in found if one.ended_s >= since_s]


@contextmanager
def watched(bootstrap: str, folder: Path) -> Iterator[tuple[httpx.Client, Path]]:
    """A client of a backend, and the file that it writes its stalls into."""
    path, file = folder / "k.sock", folder / "stalls"
    command = [sys.executable, "-m", "tests.support.bench.watched_backend"]
    with (folder / "k.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--bootstrap-server", bootstrap, "--socket", path, "--stalls", file],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        assert "kshunt serves" in process.stdout.readline()
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(base_url="http://kshunt", transport=transport, timeout=300.0) as http:
            yield http, file
    finally:
        process.kill()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


def largest() -> dict[str, tuple[str, bytes]]:
    """By name, where the largest bodies that are accepted go, and some that are refused."""
    topics = [f"bench-{number}" for number in range(TOPICS)]
    entries = [
        {
            "topic": topic,
            "partition": number,
            "replicas": [(number + more) % BROKERS + 1 for more in (1, 2, 3)],
            "log_dirs": ["any"] * 3,
        }
        for topic in topics
        for number in range(PARTITIONS)
    ]
    plan = {"version": 1, "partitions": entries}
    partitions = [{"topic": one["topic"], "partition": one["partition"]} for one in entries]
    bad = [{"topic": "", "partition": -1, "replicas": ["a"] * 9}] * len(entries)
    caps = {"per_broker": 5, "in_cluster": 200}
    start = {"plan": plan, "caps": caps, "throttle_bytes_per_s": 1_000_000}
    brokers = list(range(1, BROKERS + 1))
    asked: dict[str, tuple[str, Any]] = {
        "no JSON, 4 MB": ("/v1/reassignments", b"[" * LIMITS.request_body_bytes),
        "all entries wrong": ("/v1/reassignments", {"plan": {"partitions": bad}}),
        "progress": ("/v1/reassignments/progress", {"plan": plan}),
        "preview": ("/v1/preview", {"action": "start", "plan": plan}),
        "generate": ("/v1/reassignments/generate", {"topics": topics, "brokers": brokers}),
        "election, validated": (
            "/v1/elections/preferred",
            {"partitions": partitions, "validate_only": True},
        ),
        "status": ("/v1/replicas/status", {"partitions": partitions}),
        "describe": ("/v1/topics/describe", {"topics": topics}),
        "plan": ("/v1/plans", {"goal": "drain", "brokers": [1]}),
        "start, validated": ("/v1/reassignments", {**start, "validate_only": True}),
        "start": ("/v1/reassignments", start),
        "verify": ("/v1/reassignments/verify", {"plan": plan, "preserve_throttles": True}),
        "cancel": ("/v1/reassignments/cancel", {"partitions": partitions}),
    }
    return {
        name: (path, body if isinstance(body, bytes) else json.dumps(body).encode())
        for name, (path, body) in asked.items()
    }


def test_the_longest_stall_of_the_event_loop(tmp_path: Path) -> None:
    with running(ClusterSpec(brokers=plain_brokers(BROKERS))) as cluster:
        replicas = [[(n + more) % BROKERS + 1 for more in range(3)] for n in range(PARTITIONS)]
        for number in range(TOPICS):
            create_topic(cluster.bootstrap_servers, f"bench-{number}", replicas)
        with watched(cluster.bootstrap_servers, tmp_path) as (http, file):
            http.get("/v1/cluster")
            pause = threading.Event()
            pause.wait(15.0)
            print(f"\n{TOPICS * PARTITIONS} partitions a request, {load()}")
            print("  by the clock, and the backend's own processor time, in ms")
            longest = []
            for name, (path, body) in largest().items():
                since_s = time.monotonic()
                headers = {"content-type": "application/json"}
                answer = http.post(path, content=body, headers=headers)
                took_s = time.monotonic() - since_s
                pause.wait(SETTLE_S)
                found = stalls(file, since_s)
                worked = max((one.worked_ms for one in found), default=0.0)
                longest.append(worked)
                print(
                    f"  {name:20} {answer.status_code}, {len(body) / 1e6:3.1f} MB, {took_s:5.2f} s:"
                    f" longest stall {max((one.ms for one in found), default=0.0):5.0f},"
                    f" worked {worked:4.0f}"
                )
            print(
                f"  median {statistics.median(longest):.0f} ms, longest {max(longest):.0f} ms of "
                f"work (target {TARGET_STALL_MS:.0f} ms); {load()}"
            )
