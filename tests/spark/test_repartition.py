"""`kshunt pipeline repartition` on a real cluster, killed on the way; and its verification.

It is begun on classic Spark, and ended and verified through Spark Connect.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.delivered_files.offset_map import StoredOffsetMap
from kshunt.backend.domain.shrink.offset_maps import cuts_of, translated_of
from kshunt.backend.pipeline.kernels.partitioner import NO_KEY, partitions_of_bytes
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.brokers.connector import connector_jars, missing_connector
from tests.support.brokers.launcher import RealKafka
from tests.support.pipeline.spark import INTERPRETED, QUICK_JAVA, missing_java
from tests.support.shrink.copied_topics import Record, filled, held
from tests.support.topics import create_topic
from tests.support.waiting import require

DEADLINE_S = 600.0
COUNT, SOURCE_PARTITIONS, TARGET_PARTITIONS = 50_000, 8, 3
SEED = 8
SOURCE, TARGET = "shrinking", "shrunk"
Line = dict[str, Any]


def job(kafka: RealKafka, *words: str, where: str = "--master") -> subprocess.Popen[str]:
    """The command, with its lines of JSON; `--remote` for Spark Connect."""
    command = [sys.executable, "-m", "kshunt", "pipeline", "repartition", "--json"]
    command += ["--bootstrap-servers", kafka.bootstrap_servers, "--operation", "op-1"]
    command += ["--source", SOURCE, "--target", TARGET, where, "local[2]", "--memory", "1g"]
    return subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Spark's own switch for a Connect server on a port that is free, not on 15002.
        env={
            **os.environ,
            "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {INTERPRETED}",
            "SPARK_TESTING": "1" if where == "--remote" else "",
        },
    )


def killed(running: subprocess.Popen[str], batches: int) -> None:
    """Kill it in the batch after so many."""
    with running:
        assert running.stdout is not None
        assert running.stderr is not None
        while batches:
            line = running.stdout.readline()
            assert line, f"it ended before it was killed: {running.stderr.read()}"
            batches -= json.loads(line)["event"] == "batch"
        running.kill()
    assert running.returncode == -signal.SIGKILL


def finished(running: subprocess.Popen[str]) -> list[Line]:
    """What it said, once it has ended."""
    with running:
        out, error = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, out + error
    return [json.loads(line) for line in out.splitlines()]


def groups_of(kafka: RealKafka) -> Sequence[dict[int, int]]:
    """Positions of three groups: one has just begun, one has read half and one has read all."""
    topics = TopicQuestions({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    ends, dice = topics.ends(SOURCE), random.Random(SEED)
    first = {p: dice.randrange(end // 4) for p, end in ends.items()}
    half = {p: dice.randrange(end // 4, end) for p, end in ends.items()}
    return [half, ends, first]


@pytest.mark.kafka
@pytest.mark.spark
def test_a_topic_is_shrunk_though_the_job_is_killed_twice(kafka: RealKafka, tmp_path: Path) -> None:
    require(missing_java())
    require(missing_connector())
    servers = kafka.bootstrap_servers
    for name, partitions in ((SOURCE, SOURCE_PARTITIONS), (TARGET, TARGET_PARTITIONS)):
        create_topic(
            servers, name, [[1 + n % 3] for n in range(partitions)], {"retention.ms": "-1"}
        )
    filled(servers, SOURCE, SEED, COUNT, in_transaction=2_000)
    groups = groups_of(kafka)
    cuts = tmp_path / "cuts.json"
    cuts.write_text(json.dumps(cuts_of(groups)))
    dice = random.Random(SEED)
    how = ("--cuts", str(cuts), "--batch-records", "10000")
    for _ in range(2):
        killed(job(kafka, *how), dice.randint(1, 2))
    lines = finished(job(kafka, *how, where="--remote"))
    assert lines[-1]["complete"] is True
    assert [line["cut"] for line in lines if line["event"] == "batch"][-1] == 3

    jars = str(connector_jars())
    verify = ("--verify", "--folder", str(tmp_path), "--kafka-jars", jars)
    (found,) = finished(job(kafka, *verify, where="--remote"))
    assert found["equal"], found
    assert found["source_records"] == found["target_records"] == COUNT
    before, after = held(servers, SOURCE), held(servers, TARGET)
    _same(before, after)
    _translated(groups, found, tmp_path / "offset-map", before, after)


def _same(before: Sequence[Record], after: Sequence[Record]) -> None:
    """Every record is there once, as it was, in the partition of its key and in its order."""
    places = {(record.partition, record.offset): record for record in before}
    assert Counter(record.source for record in after) == Counter(places.keys())
    assert all(record.content == places[record.source].content for record in after)
    keyed = [record for record in after if record.key is not None]
    chosen = partitions_of_bytes([record.key for record in keyed], TARGET_PARTITIONS)
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
    found: Line,
    folder: Path,
    before: Sequence[Record],
    after: Sequence[Record],
) -> None:
    """Each group goes on with exactly what it has not read."""
    where = StoredOffsetMap(folder)
    assert sum(map(len, where)) == COUNT
    ends = {int(p): end for p, end in found["target_ends"].items()}
    for group in groups:
        new = translated_of(where, group, ends)
        assert new.read_twice == 0
        unread = {(r.partition, r.offset) for r in before if r.offset >= group[r.partition]}
        assert {r.source for r in after if r.offset >= new.positions[r.partition]} == unread
