"""How long from `make demo` to the first replicas on the screen, and how long a cluster starts.

Also by hand: `python -m tests.bench.bench_demo huge`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT
from tests.support.terminal import terminal

RUNS = 5
DEADLINE_S = 60.0
A_ROW = b"Worst"
"""The overview lists the replicas that are furthest behind."""


def until_rows(*command: str) -> float:
    """Seconds from the start of a command in a terminal to its first row of a partition."""
    started_s = time.monotonic()
    with terminal(command, {}) as shown:
        shown.until(A_ROW, DEADLINE_S)
        took_s = time.monotonic() - started_s
        shown.press(b"q")
        shown.ended(DEADLINE_S)
    return took_s


def until_ready(scenario: str) -> float:
    """Seconds from the start of `kshunt cluster` until it says that it is ready."""
    command = [sys.executable, "-m", "kshunt", "cluster", "--scenario", scenario]
    started_s = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        took_s = time.monotonic() - started_s
        process.terminate()
    assert ready.startswith(b"ready ")
    return took_s


def report(scenario: str, runs: int) -> None:
    """Measure, and print the medians."""
    make = ("make", "demo", f"ARGS=--scenario {scenario}")
    rows_s = [until_rows(*make) for _ in range(runs)]
    ready_s = [until_ready(scenario) for _ in range(runs)]
    for what, taken_s in (("make demo to rows", rows_s), ("cluster ready", ready_s)):
        each = " ".join(f"{one:.2f}" for one in taken_s)
        print(f"{scenario}: {what:<18} {statistics.median(taken_s):.2f} s  ({each})")


@pytest.mark.bench
@pytest.mark.parametrize(("scenario", "runs"), [("expand", RUNS), ("huge", 1)])
def test_demo_start(scenario: str, runs: int) -> None:
    print()
    report(scenario, runs)


if __name__ == "__main__":
    report(sys.argv[1] if len(sys.argv) > 1 else "expand", RUNS)
