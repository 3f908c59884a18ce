"""The repartition job of a shrink on a real cluster: killed, told to end, verified, copied back."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.delivered_files.offset_map import StoredOffsetMap
from kshunt.backend.domain.shrink.offset_maps import cuts_of, translated_of
from kshunt.backend.operations.shrink.job_port import JobCommand
from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java
from tests.support.shrink.check import write
from tests.support.shrink.copied_topics import filled, held
from tests.support.shrink.job import ENDS_S, ended_as, of_session
from tests.support.topics import create_topic
from tests.support.waiting import require, wait_until, wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SOURCE, COPY, BACK = "job-source", "job-copy", "job-back"
BEFORE, AFTER, COUNT = 6, 3, 30_000
GONE_S = 30.0


@pytest.fixture
def settings(kafka: RealKafka, monkeypatch: pytest.MonkeyPatch) -> JobSettings:
    require(missing_java())
    require(missing_connector())
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} {INTERPRETED}")
    return JobSettings(
        kafka.bootstrap_servers,
        master="local[2]",
        memory="1g",
        kafka_jars=connector_jars(),
        batch_records=6_000,
    )


def made(servers: str) -> None:
    for name, partitions in ((SOURCE, BEFORE), (COPY, AFTER), (BACK, AFTER)):
        brokers = [[1 + n % 3] for n in range(partitions)]
        create_topic(servers, name, brokers, {"retention.ms": "-1"})
    filled(servers, SOURCE, 8, COUNT, in_transaction=2_000)


def offsets(servers: str) -> tuple[dict[int, int], dict[int, int]]:
    """Ends of the source, and positions of a group that has read some of it."""
    ends, dice = (
        TopicQuestions({"bootstrap.servers": servers, "log_level": 0}).ends(SOURCE),
        random.Random(8),
    )
    return ends, {p: dice.randrange(end) for p, end in ends.items()}


@asynccontextmanager
async def running(job: ProcessJob, command: JobCommand) -> AsyncIterator[int]:
    """The session of a job that has copied a batch, and goes on."""
    await job.start(command)
    assert job._process is not None
    session = job._process.pid

    def is_under_way() -> bool:
        return bool(job.status().bytes)

    await wait_until_async(is_under_way, ENDS_S, "a batch is copied")
    assert job.status().running
    yield session
    # Workers are of a group of their own, and end when their Java has.
    await asyncio.to_thread(
        wait_until, lambda: not of_session(session), GONE_S, "all of it has ended"
    )


async def finished(job: ProcessJob, command: JobCommand) -> dict[str, Any]:
    """What a verification said; nothing of a copy."""
    await job.start(command)
    status = await ended_as(job, "complete")
    await job.end()
    return dict(status.verified or {})


async def test_a_job_is_killed_and_ended_and_loses_and_doubles_nothing(
    kafka: RealKafka, settings: JobSettings, tmp_path: Path
) -> None:
    servers, job = kafka.bootstrap_servers, ProcessJob(settings)
    await asyncio.to_thread(made, servers)
    until, group = await asyncio.to_thread(offsets, servers)
    command = JobCommand(
        SOURCE, COPY, "op-job", tmp_path / "there", until=until, cuts=cuts_of([group])
    )
    async with running(job, command) as session:
        os.kill(session, signal.SIGKILL)
        status = await ended_as(job, "failed")
        assert status.retriable
        await job.end()
    async with running(job, command):
        await job.end()
        assert job.status().ended == "stopped"
    await finished(job, command)
    assert job.status().positions == until
    assert job.status().records_done == job.status().records_total

    found = await finished(job, replace(command, verify=True, until=None, cuts=()))
    assert found["equal"], found
    assert found["source_records"] == found["target_records"] == COUNT
    assert {int(p): end for p, end in found["positions"].items()} == until

    back = JobCommand(COPY, BACK, "op-job-back", tmp_path / "back", strip_header=True)
    await finished(job, back)
    again = await finished(job, replace(back, verify=True))
    assert again["equal"], again
    assert again["target_records"] == COUNT
    await asyncio.to_thread(_same, servers, tmp_path, group, found, again)

    await asyncio.to_thread(write, servers, COPY, {1: 1})
    odd = await finished(job, replace(command, verify=True, until=None, cuts=()))
    assert (odd["equal"], odd["foreign"], odd["target_records"]) == (False, 1, COUNT + 1)
    (bucket,) = odd["differing"]
    assert bucket["target_records"] == bucket["source_records"] + 1


def _same(
    servers: str,
    folder: Path,
    group: dict[int, int],
    there: dict[str, Any],
    back: dict[str, Any],
) -> None:
    """Every record is back once, and the group goes on with what it has not read."""
    before, after = held(servers, SOURCE), held(servers, BACK)
    assert Counter(r.content for r in before) == Counter(r.content for r in after)
    ends, final = ({int(p): n for p, n in one["target_ends"].items()} for one in (there, back))
    first = translated_of(StoredOffsetMap(folder / "there" / "offset-map"), group, ends)
    last = translated_of(StoredOffsetMap(folder / "back" / "offset-map"), first.positions, final)
    assert (first.read_twice, last.read_twice) == (0, 0)
    unread = Counter(r.content for r in before if r.offset >= group[r.partition])
    found = Counter(r.content for r in after if r.offset >= last.positions[r.partition])
    assert found == unread
