"""The streaming job: how long after samples are written their results can be read.

The bench writes a recording of 200,000 replicas in step with the clock. Each replica has a sample
every 5 s, and a tenth is being copied. `kshunt pipeline run` follows it as a process of its own.
`KSHUNT_STREAM_REPLICAS` and `KSHUNT_STREAM_FLUSHES` change how much. `KSHUNT_STREAM_THROTTLE` is a
rate that is in force for all copies.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from kshunt.backend.delivered_files.result_files import current_files
from kshunt.backend.pipeline.results.stream_state import newest, state_folder
from tests.support.bench.flushed_samples import Recording
from tests.support.waiting import wait_until

pytestmark = pytest.mark.bench

REPLICAS: Final = int(os.environ.get("KSHUNT_STREAM_REPLICAS", "200000"))
FLUSHES: Final = int(os.environ.get("KSHUNT_STREAM_FLUSHES", "40"))
THROTTLE_BYTES_PER_S: Final = int(os.environ.get("KSHUNT_STREAM_THROTTLE", "0"))
"""0: no throttle is in force."""
WARM: Final = 8
"""Flushes that are not counted: Java compiles meanwhile."""
FLUSH_S: Final = 5.0
START_DEADLINE_S, DEADLINE_S = 600.0, 300.0
_POLL_S: Final = 0.02


def test_latency_of_the_stream(tmp_path: Path) -> None:
    recording = Recording(tmp_path, REPLICAS, THROTTLE_BYTES_PER_S or None)
    written = {1: flushed(recording)}
    results = tmp_path / "results"
    command = [sys.executable, "-m", "kshunt", "pipeline", "run", "--samples", str(tmp_path)]
    command += ["--master", os.environ.get("KSHUNT_STREAM_MASTER", "local[2]"), "--memory", "2g"]
    command += ["--until-end-of-input"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as job:
        assert job.stdin is not None
        try:
            wait_until(lambda: seen(results) >= 1, START_DEADLINE_S, "the first batch")
            latencies = followed(recording, written, results, job.pid)
        finally:
            job.stdin.close()
            job.wait(60)
    said(latencies, results)


def flushed(recording: Recording) -> float:
    """Write a sample of each replica; when that was done, by the monotonic clock."""
    recording.flush(time.time_ns() // 1_000_000)
    return time.monotonic()


def seen(results: Path) -> int:
    """The highest number of a file whose results can be read."""
    try:
        meta = newest(results)
    except Exception:  # noqa: BLE001  - the state was replaced while it was read
        return 0
    return 0 if meta is None else meta.files_to


def followed(
    recording: Recording, written: dict[int, float], results: Path, group: int
) -> list[float]:
    """Write in step with the clock; how long each flush took to be readable."""
    readable: dict[int, float] = {}
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_POLL_S):
            number, now_s = seen(results), time.monotonic()
            for known in [known for known in list(written) if known <= number]:
                readable.setdefault(known, now_s)

    looking = threading.Thread(target=look)
    looking.start()
    begin_s = since_s = time.monotonic()
    used_s = cpu_s(group)
    try:
        for flush in range(FLUSHES):
            pause_s = begin_s + flush * FLUSH_S - time.monotonic()
            threading.Event().wait(max(0.0, pause_s))
            if flush == WARM:
                used_s, since_s = cpu_s(group), time.monotonic()
            done_s = flushed(recording)
            written[recording.number] = done_s
        wait_until(lambda: recording.number in readable, DEADLINE_S, "the last flush")
        busy = (cpu_s(group) - used_s) / (time.monotonic() - since_s)
    finally:
        stop.set()
        looking.join()
    print(f"\nCPU of the job: {busy:.2f} cores; load of the machine {os.getloadavg()[0]:.1f}")
    return [readable[n] - written[n] for n in sorted(readable) if n > WARM + 1]


def said(latencies: list[float], results: Path) -> None:
    cuts = statistics.quantiles(latencies, n=20)
    rows = REPLICAS / FLUSH_S
    print(
        f"{REPLICAS:,} replicas every {FLUSH_S:g} s ({rows:,.0f} samples/s), "
        f"{len(latencies)} flushes: written to readable p50 {statistics.median(latencies):.2f} s, "
        f"p95 {cuts[18]:.2f} s, most {max(latencies):.2f} s (target: p95 6 s)"
    )
    size = sum(path.stat().st_size for path in current_files(results, "rates"))
    meta = newest(results)
    assert meta is not None
    state = sum(path.stat().st_size for path in state_folder(results, meta.batch).rglob("*.arrow"))
    print(
        f"rates: {size / FLUSHES / REPLICAS:.1f} B a row; the state that the last batch wrote: "
        f"{state / 1e6:.1f} MB (target 50)"
    )


def cpu_s(group: int) -> float:
    """What a process group has used."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
