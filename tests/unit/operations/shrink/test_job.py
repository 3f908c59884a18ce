"""The repartition job as a process of the backend's: real processes, but for Spark in them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob, command_line
from tests.support.shrink.job import alive, ended_as
from tests.support.waiting import wait_until, wait_until_async

DEADLINE_S = 30.0
SETTINGS = JobSettings("127.0.0.1:9092")

COPIES = """
import json, sys
def say(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)
say("started", positions={"0": 0, "1": 5}, until={"0": 100, "1": 105}, cuts=1, left=200)
print("Spark says something", flush=True)
say("batch", batch=1, cut=0, positions={"0": 50, "1": 55}, left=100, records=90, bytes=900,
    seconds=2.0)
say("batch", batch=2, cut=1, positions={"0": 75, "1": 80}, left=50, records=50, bytes=500,
    seconds=2.0)
sys.stdin.read()
say("ended", complete=True, positions={"0": 100, "1": 105}, left=0, records=190, seconds=5.0)
"""
VERIFIES = """
import json
print(json.dumps({"event": "verified", "equal": False, "differing": [{"bucket": 7}],
                  "positions": {"0": 100}, "target_ends": {"0": 99}}), flush=True)
raise SystemExit(1)
"""
FAILS = """
import json, sys
print("a warning of Java's", file=sys.stderr)
print(json.dumps({"event": "failed", "kind": %r, "title": "t", "message": "It stopped.",
                  "advice": "See the brokers.", "retriable": %r}), flush=True)
print("kshunt: It stopped. See the brokers.", file=sys.stderr)
raise SystemExit(1)
"""
DIES = """
import os, sys
print("kshunt: There is no Java. Install one.", file=sys.stderr)
print("Traceback", file=sys.stderr)
print("not JSON")
print("[1, 2]")
print('{"event": "batch"}')
os._exit(3)
"""
STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
child.wait()
"""
ENDS_WHEN_TOLD = """
import json, signal, sys, threading
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
print(json.dumps({"event": "started", "positions": {"0": 0}, "until": {}, "cuts": 0, "left": 9}),
      flush=True)
told.wait()
print(json.dumps({"event": "ended", "complete": False, "positions": {"0": 4}, "left": 5,
                  "records": 4, "seconds": 1.0}), flush=True)
"""
SUPERVISES = """
import asyncio, sys
from pathlib import Path
from kshunt.backend.operations.shrink.job_port import JobCommand
from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
async def main():
    line = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
    job = ProcessJob(JobSettings("127.0.0.1:1"), lambda *_: line)
    await job.start(JobCommand("s", "t", "op", Path(sys.argv[3])))
    await asyncio.Event().wait()
asyncio.run(main())
"""
STAYS = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
sys.stdin.read()
"""


@asynccontextmanager
async def started(folder: Path, script: str, *arguments: str) -> AsyncIterator[ProcessJob]:
    job = ProcessJob(SETTINGS, lambda *_: [sys.executable, "-c", script, *arguments])
    await job.start(JobCommand("source", "target", "op", folder / "job"))
    try:
        yield job
    finally:
        await job.end()


async def seen(job: ProcessJob, **values: object) -> JobStatus:
    def is_so() -> bool:
        return all(getattr(job.status(), name) == value for name, value in values.items())

    await wait_until_async(is_so, DEADLINE_S, f"the job says {values}")
    return job.status()


async def test_its_progress_is_told(tmp_path: Path) -> None:
    async with started(tmp_path, COPIES) as job:
        status = await seen(job, records_done=150)
        assert status == JobStatus(
            running=True,
            records_done=150,
            records_total=200,
            bytes=1_400,
            records_per_s=35.0,
            positions={0: 75, 1: 80},
        )


async def test_it_ends_with_all_copied(tmp_path: Path) -> None:
    async with started(tmp_path, COPIES.replace("sys.stdin.read()", "")) as job:
        status = await ended_as(job, "complete")
        assert not status.running
        assert (status.records_done, status.positions) == (200, {0: 100, 1: 105})


async def test_a_verification_is_complete_whatever_it_found(tmp_path: Path) -> None:
    async with started(tmp_path, VERIFIES) as job:
        status = await ended_as(job, "complete")
        assert status.verified is not None
        assert status.verified["equal"] is False
        assert status.verified["differing"] == [{"bucket": 7}]


@pytest.mark.parametrize(
    ("kind", "said", "retriable"),
    [("TopicGone", False, False), ("CopyUnreachable", True, True), ("CopyFenced", False, True)],
)
async def test_why_it_failed_is_kept(
    tmp_path: Path, kind: str, said: bool, retriable: bool
) -> None:
    async with started(tmp_path, FAILS % (kind, said)) as job:
        status = await ended_as(job, "failed")
        assert status.words == "It stopped. See the brokers."
        assert status.retriable is retriable


async def test_what_dies_without_a_word_of_it_has_its_last_words(tmp_path: Path) -> None:
    async with started(tmp_path, DIES) as job:
        status = await ended_as(job, "failed")
        assert status.words == "There is no Java. Install one."
        assert status.retriable


async def test_what_cannot_be_started_is_said(tmp_path: Path) -> None:
    job = ProcessJob(SETTINGS, lambda *_: [str(tmp_path / "none")])
    await job.start(JobCommand("source", "target", "op", tmp_path))
    status = job.status()
    assert (status.running, status.ended) == (False, "failed")
    assert "cannot be started" in status.words
    await job.end()


async def test_it_ends_by_itself_when_told(tmp_path: Path) -> None:
    async with started(tmp_path, ENDS_WHEN_TOLD) as job:
        await seen(job, records_total=9)
        await job.end()
        status = job.status()
        assert (status.ended, status.running) == ("stopped", False)
        assert (status.records_done, status.positions) == (4, {0: 4})


async def test_what_does_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    async with started(tmp_path, STUBBORN, str(noted)) as job:
        await wait_until_async(
            lambda: noted.exists() and len(noted.read_text().split()) == 2,
            DEADLINE_S,
            "both processes run",
        )
        await job.end()
        assert job.status().ended == "stopped"
        pids = [int(pid) for pid in noted.read_text().split()]
        # Both are killed; who has no parent left is buried by init, a moment later.
        await wait_until_async(lambda: not any(map(alive, pids)), DEADLINE_S, "both have ended")


async def test_it_can_be_started_anew_with_nothing_of_before(tmp_path: Path) -> None:
    async with started(tmp_path, FAILS % ("TopicGone", False)) as job:
        await ended_as(job, "failed")
        job.line = lambda *_: [sys.executable, "-c", COPIES]
        await job.start(JobCommand("source", "target", "op", tmp_path / "job"))
        status = await seen(job, records_done=150)
        assert (status.ended, status.words, status.retriable) == (None, "", False)


def test_a_backend_that_is_killed_leaves_no_job(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    command = [sys.executable, "-c", SUPERVISES, STAYS, str(noted), str(tmp_path / "job")]
    backend = subprocess.Popen(command)
    try:
        wait_until(lambda: noted.exists() and noted.read_text(), DEADLINE_S, "the job runs")
        pid = int(noted.read_text())
        assert alive(pid)
    finally:
        backend.kill()
        backend.wait(DEADLINE_S)
    wait_until(lambda: not alive(pid), DEADLINE_S, "the job has ended")


# Command lines


def flags(line: Sequence[str]) -> dict[str, str]:
    return {name: word for name, word in pairwise(line) if name[:2] == "--"}


def content(path: str) -> Any:
    return json.loads(Path(path).read_text())


async def test_a_copy_is_told_its_offsets_by_files(tmp_path: Path) -> None:
    command = JobCommand(
        "s",
        "t",
        "op",
        tmp_path / "job",
        until={1: 7, 0: 9},
        cuts=[{0: 1}, {0: 2, 1: 3}],
        partitioner=Partitioner.CRC32,
    )
    job = ProcessJob(SETTINGS, lambda *_: [sys.executable, "-c", ""])
    await job.start(command)
    await job.end()
    line = command_line(SETTINGS, command)
    said = flags(line)
    assert line[:5] == [sys.executable, "-P", "-m", "kshunt", "pipeline"]
    assert {"--json", "--until-end-of-input"} <= set(line)
    assert not {"--verify", "--strip-header", "--folder", "--master"} & set(line)
    assert content(said["--until"]) == {"0": 9, "1": 7}
    assert content(said["--cuts"]) == [{"0": 1}, {"0": 2, "1": 3}]
    assert (said["--source"], said["--target"], said["--operation"]) == ("s", "t", "op")
    assert said["--partitioner"] == "crc32"


def test_a_verification_is_told_its_folder_and_connector(tmp_path: Path) -> None:
    command = JobCommand("s", "t", "op", tmp_path, verify=True, strip_header=True, until={0: 1})
    settings = JobSettings(
        "b:1", tmp_path / "c.properties", "local[2]", memory="1g", kafka_jars=tmp_path / "jars"
    )
    line = command_line(settings, command)
    said = flags(line)
    assert {"--verify", "--strip-header"} <= set(line)
    assert not {"--until", "--cuts", "--batch-records"} & set(line)
    assert (said["--folder"], said["--kafka-jars"]) == (str(tmp_path), str(tmp_path / "jars"))
    assert (said["--master"], said["--memory"]) == ("local[2]", "1g")
    assert said["--command-config"] == str(tmp_path / "c.properties")
