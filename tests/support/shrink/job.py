"""What the tests of the repartition job as a process share."""

from __future__ import annotations

from pathlib import Path

from kshunt.backend.operations.shrink.job_port import Ended, JobStatus, RepartitionJob
from tests.support.waiting import wait_until_async

ENDS_S = 300.0
"""Spark starts, reads and writes within this."""


def alive(pid: int) -> bool:
    """True for a process that runs; one that has ended and was not waited for is none."""
    return _state(pid) not in ("", "Z")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def of_session(session: int) -> list[int]:
    """The processes that run in a session, whatever their groups are."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


async def ended_as(job: RepartitionJob, how: Ended) -> JobStatus:
    """How a job stands once it has ended, and all that it said was heard."""

    def is_over() -> bool:
        return job.status().ended is not None and not job.status().running

    await wait_until_async(is_over, ENDS_S, "the job has ended")
    assert job.status().ended == how, job.status()
    return job.status()
