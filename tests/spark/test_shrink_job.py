"""The repartition job of a shrink on a real cluster: killed, told to end, ended and verified.

It begins on classic Spark, and ends and is verified through Spark Connect. What it copies back is
compared in `tests/spark/test_shrink_killed.py`, after a whole shrink.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.delivered_files.offset_map import StoredOffsetMap
from kshunt.backend.domain.shrink.offset_maps import cuts_of, translated_of
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
from kshunt.backend.pipeline.kernels.partitioner import NO_KEY, partitions_of_bytes
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java
from tests.support.shrink.check import write
from tests.support.shrink.copied_topics import Record, filled, held
from tests.support.shrink.job import ENDS_S, ended_as, of_session
from tests.support.topics import create_topic
from tests.support.waiting import require, wait_until, wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SOURCE, COPY = "job-source", "job-copy"
BEFORE, AFTER, COUNT, SEED = 4, 3, 24_000, 8
BATCH_RECORDS = 5_000
"""A range of a batch has more records than a worker reads at a time."""
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
        batch_records=BATCH_RECORDS,
    )


def made(servers: str) -> None:
    for name, partitions in ((SOURCE, BEFORE), (COPY, AFTER)):
        brokers = [[1 + n % 3] for n in range(partitions)]
        create_topic(servers, name, brokers, {"retention.ms": "-1"})
    filled(servers, SOURCE, SEED, COUNT, in_transaction=2_000)


def groups_of(ends: Mapping[int, int]) -> Sequence[dict[int, int]]:
    """Positions of three groups: one has read half, one has read all and one has just begun."""
    dice = random.Random(SEED)
    first = {p: dice.randrange(end // 4) for p, end in ends.items()}
    half = {p: dice.randrange(end // 4, end) for p, end in ends.items()}
    return [half, dict(ends), first]


@asynccontextmanager
async def running(job: ProcessJob, command: JobCommand) -> AsyncIterator[int]:
    """The session of a job that has copied a batch and continues."""
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


async def finished(job: ProcessJob, command: JobCommand, code: int = 0) -> JobStatus:
    """What it has said once it has ended, with this exit code."""
    await job.start(command)
    assert job._process is not None
    status = await ended_as(job, "complete")
    assert job._process.returncode == code
    await job.end()
    return status


async def test_a_job_is_killed_and_ended_and_loses_and_doubles_nothing(
    kafka: RealKafka, settings: JobSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, job = kafka.bootstrap_servers, ProcessJob(settings)
    await asyncio.to_thread(made, servers)
    until = TopicQuestions({"bootstrap.servers": servers, "log_level": 0}).ends(SOURCE)
    groups = groups_of(until)
    command = JobCommand(SOURCE, COPY, "op-job", tmp_path, until=until, cuts=cuts_of(groups))
    async with running(job, command) as session:
        os.kill(session, signal.SIGKILL)
        status = await ended_as(job, "failed")
        assert status.retriable
        await job.end()
    async with running(job, command):
        await job.end()
        assert job.status().ended == "stopped"

    # Spark's own switch for a Connect server on a port that is free, not on 15002.
    monkeypatch.setenv("SPARK_TESTING", "1")
    connected = ProcessJob(replace(settings, master="", remote="local[2]"))
    status = await finished(connected, command)
    assert status.positions == until
    assert status.records_done == status.records_total
    copied = await asyncio.to_thread(held, servers, COPY)

    verification = replace(command, verify=True, until=None, cuts=())
    found = dict((await finished(connected, verification, code=0)).verified or {})
    assert (found["equal"], found["target_records"], found["differing"]) == (True, COUNT, [])

    # A record of somebody else's is all that the verification finds.
    await asyncio.to_thread(write, servers, COPY, {1: 1})
    found = dict((await finished(connected, verification, code=1)).verified or {})
    assert (found["equal"], found["foreign"], found["misordered"]) == (False, 1, 0)
    assert (found["source_records"], found["target_records"]) == (COUNT, COUNT + 1)
    assert found["missing"] == found["surplus"] == found["doubled"] == []
    (bucket,) = found["differing"]
    assert bucket["target_records"] == bucket["source_records"] + 1
    assert {int(p): end for p, end in found["positions"].items()} == until
    original = await asyncio.to_thread(held, servers, SOURCE)
    _same(original, copied)
    _translated(groups, found, tmp_path / "offset-map", original, copied)


def _same(before: Sequence[Record], after: Sequence[Record]) -> None:
    """Every record is there once, as it was, in the partition of its key and in its order."""
    places = {(record.partition, record.offset): record for record in before}
    assert Counter(record.source for record in after) == Counter(places.keys())
    assert all(record.content == places[record.source].content for record in after)
    keyed = [record for record in after if record.key is not None]
    chosen = partitions_of_bytes([record.key for record in keyed], AFTER)
    assert [record.partition for record in keyed] == chosen
    assert NO_KEY not in chosen
    assert _by_key(before) == _by_key(after)


def _by_key(records: Sequence[Record]) -> Mapping[bytes, list[Any]]:
    """Values of each key, in their order."""
    values: dict[bytes, list[Any]] = {}
    for record in records:
        if record.key is not None:
            values.setdefault(record.key, []).append((record.value, record.timestamp_ms))
    return values


def _translated(
    groups: Sequence[Mapping[int, int]],
    found: Mapping[str, Any],
    folder: Path,
    before: Sequence[Record],
    after: Sequence[Record],
) -> None:
    """Each group continues with exactly what it has not read."""
    where = StoredOffsetMap(folder)
    assert sum(map(len, where)) == COUNT
    ends = {int(p): end for p, end in found["target_ends"].items()}
    for group in groups:
        new = translated_of(where, group, ends)
        assert new.read_twice == 0
        unread = {(r.partition, r.offset) for r in before if r.offset >= group[r.partition]}
        assert {r.source for r in after if r.offset >= new.positions[r.partition]} == unread
