"""Whole-process time of `--progress` and `--verify` next to Apache's Java tool, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kshunt.backend.local_sockets import socket_path
from tests.support.brokers.launcher import RealKafka
from tests.support.serving import serve_process
from tests.support.topics import create_topic

pytestmark = [pytest.mark.bench, pytest.mark.kafka]

JAVA_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RUNS = 11
TARGET_RATIO = 0.35
PLAN = """{"version":1,"partitions":[
 {"topic":"bench","partition":0,"replicas":[1,2]},
 {"topic":"bench","partition":1,"replicas":[2,3]}]}"""


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def private_backend(bootstrap: str, runtime: Path) -> Iterator[None]:
    """A backend where the tool looks for one."""
    with serve_process(bootstrap, socket_path(bootstrap, None)):
        yield


def test_whole_process_time_beside_the_java_tool(
    kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    create_topic(kafka.bootstrap_servers, "bench", [[1, 2], [2, 3]])
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    common = ["--bootstrap-server", kafka.bootstrap_servers, "--reassignment-json-file", str(plan)]
    command = [str(Path(sys.executable).with_name("kshunt")), "kafka-reassign-partitions"]

    def ours(action: str) -> None:
        subprocess.run([*command, action, *common], check=True, capture_output=True)

    def javas() -> None:
        done = kafka.java_tool(JAVA_TOOL, *common, "--verify")
        assert "is completed" in done.stdout, done

    print(f"\n{os.cpu_count()} cores, {RUNS} interleaved runs, two-partition plan; medians")
    with private_backend(kafka.bootstrap_servers, tmp_path):
        _compare("with a running backend", ours, javas)
    _compare("no backend", ours, javas)


def _compare(label: str, ours: Callable[[str], None], javas: Callable[[], None]) -> None:
    times: dict[str, list[float]] = {"--progress": [], "--verify": [], "java --verify": []}
    for run in range(RUNS + 1):
        taken = {
            "--progress": seconds(lambda: ours("--progress")),
            "--verify": seconds(lambda: ours("--verify")),
            "java --verify": seconds(javas),
        }
        if run:  # the first one warms the caches of files
            for name, value in taken.items():
                times[name].append(value)
    java = statistics.median(times["java --verify"])
    for name in ("--progress", "--verify"):
        median = statistics.median(times[name])
        pairs = [a / b for a, b in zip(times[name], times["java --verify"], strict=True)]
        print(
            f"{label:24} {name:10} {median * 1e3:6.0f} ms   Java --verify {java * 1e3:6.0f} ms   "
            f"ratio {statistics.median(pairs):.2f} (target {TARGET_RATIO})"
        )
