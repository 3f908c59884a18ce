"""The pipeline as a process of the backend's: real processes, but for Spark in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kshunt.backend.clock import SystemClock
from kshunt.backend.telemetry.results.pipeline_supervisor import (
    PipelineSupervisor,
    pipeline_command,
)
from tests.support.waiting import wait_until, wait_until_async

DEADLINE_S = 30.0

STAYS = """
import os, sys
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
print("it stays", flush=True)
sys.stdin.read()
"""
FAILS = """
print("a line before")
print("kshunt: There is no Java. Install one.")
print("and one after")
raise SystemExit(1)
"""
SUPERVISES = """
import asyncio, sys
from kshunt.backend.clock import SystemClock
from kshunt.backend.telemetry.results.pipeline_supervisor import PipelineSupervisor
asyncio.run(PipelineSupervisor(sys.argv[1:], SystemClock()).run())
"""


def child(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def pids(noted: Path) -> list[int]:
    return [int(line) for line in noted.read_text().split()] if noted.exists() else []


def alive(pid: int) -> bool:
    try:
        # A process that has ended and was not waited for yet is none.
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def test_it_runs_while_the_backend_does_and_ends_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    supervised = PipelineSupervisor(child(STAYS, str(noted)), SystemClock())
    assert not supervised.status().running
    async with supervised.beside():
        # The process may write before its supervisor continues.
        await wait_until_async(
            lambda: pids(noted) and supervised.status().running, DEADLINE_S, "it has started"
        )
        status = supervised.status()
        assert (status.running, status.restarts, status.last_error) == (True, 0, "")
    (pid,) = pids(noted)
    assert not alive(pid)


async def test_it_is_started_again_whenever_it_ends(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    supervised = PipelineSupervisor(child(STAYS, str(noted)), SystemClock(), pause_s=0.01)
    async with supervised.beside():
        for times in (1, 2, 3):
            await wait_until_async(
                lambda times=times: len(pids(noted)) == times,  # type: ignore[misc]
                DEADLINE_S,
                f"it was started {times} times",
            )
            os.kill(pids(noted)[-1], signal.SIGKILL)
        await wait_until_async(
            lambda: len(pids(noted)) == 4 and supervised.status().running,
            DEADLINE_S,
            "it was started again",
        )
        status = supervised.status()
        assert (status.running, status.restarts) == (True, 3)
        assert status.last_error == "it stays"


async def test_why_it_ended_is_kept_in_its_own_words() -> None:
    supervised = PipelineSupervisor(child(FAILS), SystemClock(), pause_s=0.01)
    async with supervised.beside():
        await wait_until_async(lambda: supervised.status().restarts > 1, DEADLINE_S, "restarts")
        assert supervised.status().last_error == "There is no Java. Install one."


async def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    supervised = PipelineSupervisor([str(tmp_path / "none")], SystemClock(), pause_s=0.01)
    async with supervised.beside():
        await wait_until_async(lambda: supervised.status().restarts > 1, DEADLINE_S, "restarts")
        status = supervised.status()
        assert not status.running
        assert status.last_error == "It cannot be started: No such file or directory."


def test_a_backend_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    backend = subprocess.Popen(child(SUPERVISES, *child(STAYS, str(noted))))
    try:
        wait_until(lambda: pids(noted), DEADLINE_S, "the process has started")
        (pid,) = pids(noted)
        assert alive(pid)
    finally:
        backend.kill()
        backend.wait(DEADLINE_S)
    wait_until(lambda: not alive(pid), DEADLINE_S, "the process has ended")


def test_the_command_names_the_recording_and_where_spark_runs(tmp_path: Path) -> None:
    command = pipeline_command(
        tmp_path, tmp_path / "results", "local[2]", keep_rates_days=3, keep_results_days=90
    )
    assert command[:5] == [sys.executable, "-P", "-m", "kshunt", "pipeline"]
    assert "--until-end-of-input" in command
    assert " --keep-rates 3 --keep-results 90 " in " ".join(command)
    assert command[-6:] == [
        "--samples",
        str(tmp_path),
        "--results",
        str(tmp_path / "results"),
        "--master",
        "local[2]",
    ]
