"""A backfill on a Spark cluster of processes: one worker of one core, then two.

Both clusters make the same tables of the same recording. Each is started anew, and makes them
`RUNS` times after a first time that warms its Java. A worker with a task has a thread of Java and
a process of Python, which take more than one processor together. So the processes of each worker
are bound to a processor of their own. On a machine of two, the driver takes from both.
`KSHUNT_WORKERS_SAMPLES` says of how many samples. `KSHUNT_WORKERS_DRIVER=0` binds the driver to the
first worker's processor, as if a machine of one processor were joined by another one.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from tests.support.bench.pipeline_load import Load, write_load
from tests.support.pipeline.spark import missing_java
from tests.support.pipeline.standalone import standalone_cluster
from tests.support.waiting import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark]

SAMPLES: Final = int(os.environ.get("KSHUNT_WORKERS_SAMPLES", "5000000"))
DRIVER: Final = os.environ.get("KSHUNT_WORKERS_DRIVER", "")
"""The processor that the driver is bound to; empty: it may use all."""
RUNS: Final = 3
TARGET: Final = 1.7


def test_one_worker_then_two(tmp_path: Path) -> None:
    require(missing_java())
    recording = tmp_path / "recording"
    load = Load.of(SAMPLES)
    write_load(recording, load)
    if DRIVER:
        os.sched_setaffinity(0, {int(DRIVER)})
    print(f"\n{load.samples:,} samples; a backfill of all tables, {RUNS} runs after a first one")
    medians = [said(workers, recording, tmp_path / f"cluster-{workers}") for workers in (1, 2)]
    ratio = medians[0] / medians[1]
    print(f"two workers make {ratio:.2f} times what one makes (target {TARGET})")


def said(workers: int, recording: Path, folder: Path) -> float:
    """The median of the seconds that a backfill takes there."""
    folder.mkdir()
    with standalone_cluster(workers, folder, pinned=True) as url:
        session = start_session(PipelineSettings(master=url))
        try:
            seconds = [made(session, recording, folder / "results") for _ in range(1 + RUNS)][1:]
        finally:
            session.stop()
    median = statistics.median(seconds)
    print(
        f"  {workers} x 1 core: median {median:.1f} s ({min(seconds):.1f}-{max(seconds):.1f}), "
        f"load of the machine {os.getloadavg()[0]:.1f}"
    )
    return median


def made(session: SparkSession, recording: Path, results: Path) -> float:
    """The seconds of one backfill into an empty folder."""
    shutil.rmtree(results, ignore_errors=True)
    began_s = time.monotonic()
    period = check(recording, None, None)
    backfill(session, recording, results, period, SystemClock(), lambda one: None)
    return time.monotonic() - began_s


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-m", "bench", "-s", "-q"]))
