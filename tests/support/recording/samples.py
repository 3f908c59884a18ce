"""Snapshots to be recorded, drawn and made, and what is read back of a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import Broker, LogDir
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    BrokerStatus,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import BrokerThrottle, ThrottledRate, Throttles
from kshunt.backend.telemetry.recording.due_samples import DueSamples
from kshunt.backend.telemetry.recording.kafka_sink import KEYS
from kshunt.backend.telemetry.recording.layout import SampleTable
from kshunt.backend.telemetry.recording.sample_rows import replica_rows
from kshunt.backend.telemetry.recording.schema import read_recording

START_MS = 1_795_325_000_000
"""2026-11-22 05:23:20 UTC."""
TOPICS = ("a", "b.c", "cfg[red]x[/red]", "日本")
BROKERS = (0, 1, 7, 2**31 - 1)


@dataclass(frozen=True)
class Row:
    """One replica of a snapshot."""

    topic: int = 0
    partition: int = 0
    broker: int = 0
    leader: int = 0
    sampled_ms: int = START_MS
    end: int = 10
    size: int = 1_000
    lag: int = 0
    lag_bytes: int = 0
    in_isr: bool = True
    adding: bool = False
    leader_throttled: bool = False
    follower_throttled: bool = False
    cause: Cause = Cause.NONE
    fetched: float = math.nan
    log_dir: int = 0


def snapshot(
    rows: Iterable[Row],
    at_ms: int = START_MS,
    version: int = 1,
    rates: dict[int, ThrottledRate] | None = None,
    cluster_id: str = "cluster",
) -> Snapshot:
    """A snapshot of these replicas, of brokers that all answer."""
    table = sorted(rows, key=lambda row: (row.topic, row.partition))
    places: dict[tuple[int, int], int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in table:
        position = places.setdefault((row.topic, row.partition), 0)
        places[row.topic, row.partition] += 1
        values = dict.fromkeys(COLUMNS, 0) | {
            "topic_index": row.topic,
            "partition": row.partition,
            "broker": row.broker,
            "position": position,
            "leader": row.leader,
            "in_isr": row.in_isr,
            "adding": row.adding,
            "leader_throttled": row.leader_throttled,
            "follower_throttled": row.follower_throttled,
            "cause": row.cause,
            "log_end_offset": row.end,
            "size_bytes": row.size,
            "lag_messages": row.lag,
            "lag_bytes": row.lag_bytes,
            "fetched_bytes_per_s": row.fetched,
            "sampled_ms": row.sampled_ms,
        }
        for name, value in values.items():
            columns[name].append(value)
    hosts = sorted({row.broker for row in table})
    return Snapshot(
        version=version,
        taken_ms=at_ms,
        cluster_id=cluster_id,
        controller=1,
        topics=TOPICS,
        replicas=Replicas(**{name: np.array(columns[name], DTYPES[name]) for name in COLUMNS}),
        brokers={b: BrokerStatus(Broker(b, "h", 9092), at_ms, stale=False) for b in hosts},
        throttles=Throttles({b: BrokerThrottle(b, one) for b, one in (rates or {}).items()}, {}),
        log_dirs=(LogDir(7, "/d", 10, -1),),
    )


def later(before: Snapshot, seconds: float) -> Snapshot:
    """The same replicas, reported anew after a while."""
    step_ms = round(seconds * 1000)
    rows = before.replicas
    return replace(
        before,
        version=before.version + 1,
        taken_ms=before.taken_ms + step_ms,
        replicas=replace(rows, sampled_ms=rows.sampled_ms + step_ms),
    )


def many(partitions: int, at_ms: int = START_MS, *, moving: bool = True) -> Snapshot:
    """A snapshot of two replicas a partition: the second is being added."""
    return snapshot(
        (
            Row(0, number, broker, 0, at_ms, adding=moving and broker == 1, in_isr=broker == 0)
            for number in range(partitions)
            for broker in (0, 1)
        ),
        at_ms,
    )


def table_of(one: Snapshot) -> Any:
    """Everything of a snapshot that has been reported, as rows."""
    layout, rows = DueSamples(60).of(one)
    return replica_rows(one, layout, rows, {})


def keys_in(folder: Path, table: SampleTable = SampleTable.REPLICAS) -> list[tuple[int, Any]]:
    """Key of each row of a recording, sorted: its time, and its replica, broker or operation."""
    rows = read_recording(folder, table)
    times = rows["at"].cast("int64").to_pylist()
    return sorted(zip(times, rows[KEYS[table]].to_pylist(), strict=True))


def queried(sql: str) -> list[Any]:
    """What DuckDB answers, in a connection of its own."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


unknown_or = st.sampled_from([-1, 0, 1, 5_000, 2**53])
flags = st.booleans()
facts = st.builds(
    Row,
    leader=st.sampled_from([-1, *BROKERS]),
    sampled_ms=st.sampled_from([-1, START_MS, START_MS + 999]),
    end=unknown_or,
    size=unknown_or,
    lag=unknown_or,
    lag_bytes=unknown_or,
    in_isr=flags,
    adding=flags,
    leader_throttled=flags,
    follower_throttled=flags,
    cause=st.sampled_from(Cause),
    fetched=st.sampled_from([math.nan, math.inf, -1.0, 0.0, 2.5]),
)
keys = st.tuples(st.integers(0, len(TOPICS) - 1), st.integers(0, 3), st.sampled_from(BROKERS))


@st.composite
def drawn(draw: Any, at_ms: int = START_MS) -> Snapshot:
    """Any snapshot: replicas of a partition agree on their leader and on nothing else."""
    table = draw(st.dictionaries(keys, facts, max_size=20))
    leaders = {(topic, number): row.leader for (topic, number, _), row in table.items()}
    rate = st.sampled_from([None, 1_000, 10**9])
    rates = draw(
        st.dictionaries(st.sampled_from(BROKERS), st.builds(ThrottledRate, rate, rate), max_size=4)
    )
    rows = [
        replace(row, topic=topic, partition=number, broker=broker, leader=leaders[topic, number])
        for (topic, number, broker), row in table.items()
    ]
    return snapshot(rows, at_ms, rates=rates)


def with_modes(one: Snapshot, **modes: PartitionMode) -> Snapshot:
    """The snapshot with some partitions of its first topic in other modes: `p1=RO`."""
    mode = one.replicas.mode.copy()
    for name, code in modes.items():
        mode[(one.replicas.topic_index == 0) & (one.replicas.partition == int(name[1:]))] = code
    return replace(one, replicas=replace(one.replicas, mode=mode))


def plain(partitions: int = 3) -> Snapshot:
    """Partitions of one topic, two replicas each, all ReadWrite."""
    return snapshot(Row(0, number, broker) for number in range(partitions) for broker in (0, 1))
