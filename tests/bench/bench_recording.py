"""Recording 200,000 replicas: from a snapshot to rows, and from rows to files; bytes a row."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Replicas, Snapshot
from kshunt.backend.domain.throttles.configs import BrokerThrottle, ThrottledRate, Throttles
from kshunt.backend.telemetry.recording.due_samples import DueSamples
from kshunt.backend.telemetry.recording.folder_sink import FolderSink
from kshunt.backend.telemetry.recording.json_rows import json_rows
from kshunt.backend.telemetry.recording.layout import SampleTable, together, written
from kshunt.backend.telemetry.recording.retention import Retention
from kshunt.backend.telemetry.recording.sample_rows import broker_rows, replica_rows
from kshunt.backend.telemetry.recording.write_buffer import WriteBuffer

pytestmark = pytest.mark.bench

BROKERS, TOPICS, PARTITIONS, FACTOR = 100, 2_000, 34, 3
MOVING = 700
"""Partitions; 2,100 rows."""
RUNS = 9
FLUSH_MOMENTS = 5
START_MS = 1_795_325_000_000


def cluster(at_ms: int) -> Snapshot:
    """204,000 replicas, of which those of `MOVING` partitions are being moved."""
    count, rng = TOPICS * PARTITIONS * FACTOR, np.random.default_rng(1)
    first = np.repeat(rng.integers(0, BROKERS, TOPICS * PARTITIONS), FACTOR).astype(np.int32)
    position = np.tile(np.arange(FACTOR, dtype=np.int16), TOPICS * PARTITIONS)
    adding = np.zeros(count, np.bool_)
    adding[FACTOR - 1 : MOVING * FACTOR : FACTOR] = True
    size = np.repeat(rng.integers(0, 10**10, TOPICS * PARTITIONS), FACTOR)
    lag = np.where(adding, size // 3, 0)
    unknown = np.full(count, np.nan, np.float32)
    rows = Replicas(
        topic_index=np.repeat(np.arange(TOPICS, dtype=np.int32), PARTITIONS * FACTOR),
        partition=np.tile(np.repeat(np.arange(PARTITIONS, dtype=np.int32), FACTOR), TOPICS),
        broker=((first + position * 7) % BROKERS).astype(np.int32),
        position=position,
        leader=first,
        in_isr=~adding,
        adding=adding,
        removing=np.zeros(count, np.bool_),
        leader_throttled=np.repeat(adding[FACTOR - 1 :: FACTOR], FACTOR),
        follower_throttled=adding,
        status=adding.astype(np.uint8),
        cause=np.zeros(count, np.uint8),
        log_end_offset=(size - lag) // 1_000,
        lag_messages=lag // 1_000,
        size_bytes=size - lag,
        lag_bytes=lag,
        log_dir=np.zeros(count, np.int16),
        catch_up_messages_per_s=unknown,
        catch_up_bytes_per_s=unknown,
        fetched_bytes_per_s=unknown,
        eta_s=unknown,
        sampled_ms=np.full(count, at_ms, np.int64),
    )
    rate = ThrottledRate(50_000_000, 50_000_000)
    return Snapshot(
        version=1,
        taken_ms=at_ms,
        cluster_id="bench",
        controller=1,
        topics=tuple(f"topic-{number:05}" for number in range(TOPICS)),
        replicas=rows,
        brokers={b: BrokerStatus(Broker(b, "h", 9092), at_ms, stale=False) for b in range(BROKERS)},
        throttles=Throttles({b: BrokerThrottle(b, rate) for b in range(BROKERS)}, {}),
    )


def moved(before: Snapshot) -> Snapshot:
    """A second later: what moves was reported, and has come nearer."""
    rows, at_ms = before.replicas, before.taken_ms + 1_000
    moving = np.arange(len(rows)) < MOVING * FACTOR
    gained = np.where(rows.adding, 1_000_000, 0)
    return replace(
        before,
        version=before.version + 1,
        taken_ms=at_ms,
        replicas=replace(
            rows,
            sampled_ms=np.where(moving, at_ms, rows.sampled_ms),
            size_bytes=rows.size_bytes + gained,
            lag_bytes=np.maximum(rows.lag_bytes - gained, 0),
            log_end_offset=rows.log_end_offset + gained // 1_000,
            lag_messages=np.maximum(rows.lag_messages - gained // 1_000, 0),
        ),
    )


def cost(run: Callable[[], Any], runs: int = RUNS) -> tuple[str, Any]:
    """CPU of some runs, the median and the extremes, and what the last one returned."""
    times, result = [], None
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        result = run()
        times.append((time.process_time() - started) * 1e3)
    median, least, most = statistics.median(times), min(times), max(times)
    return f"{median:.1f} ms of CPU ({least:.1f}-{most:.1f})", result


def test_rows_of_200_000_replicas() -> None:
    first = cluster(START_MS)
    operations = {TopicPartition("topic-00000", number): "op" for number in range(PARTITIONS)}
    layout, every = DueSamples(60).of(first)
    print(f"\nall {len(every):,} rows, due: {cost(lambda: DueSamples(60).of(first))[0]}")
    took, rows = cost(lambda: replica_rows(first, layout, every, operations))
    print(f"  as a table: {took}; target 60; {rows.nbytes / len(rows):.0f} B a row in memory")
    took, values = cost(lambda: json_rows(rows), 3)
    print(f"  as JSON: {took}; {sum(map(len, values)) / len(values):.0f} B a row")
    due, last = DueSamples(60), first
    due.of(first)
    states = [last := moved(last) for _ in range(RUNS)]
    each = iter(states)
    took, (layout, some) = cost(lambda: due.of(next(each)))
    print(f"{len(some):,} rows that move, due: {took}")
    took, _ = cost(lambda: replica_rows(last, layout, some, operations))
    print(f"  as a table: {took}; target 5")
    print(f"{BROKERS} brokers as a table: {cost(lambda: broker_rows(first))[0]}")


def test_files_of_rows(tmp_path: Path) -> None:
    first = cluster(START_MS)
    due, sink = DueSamples(60), FolderSink(tmp_path)
    sink.open("bench", START_MS)
    layout, every = due.of(first)
    whole = replica_rows(first, layout, every, {})
    took, _ = cost(lambda: sink.write(SampleTable.REPLICAS, whole), 3)
    size = written(tmp_path, SampleTable.REPLICAS)[0].path.stat().st_size
    print(f"\na file of {len(whole):,} rows: {took}; {size / len(whole):.1f} B a row")
    flushes = WriteBuffer(10**7)
    last = first
    for _ in range(FLUSH_MOMENTS):
        last = moved(last)
        layout, some = due.of(last)
        flushes.add(SampleTable.REPLICAS, replica_rows(last, layout, some, {}))
    ((_, moving),) = flushes.take()
    took, _ = cost(lambda: sink.write(SampleTable.REPLICAS, moving))
    size = written(tmp_path, SampleTable.REPLICAS)[-1].path.stat().st_size
    print(f"a flush of {len(moving):,} rows that move: {took}; {size / len(moving):.1f} B a row")
    parts = written(tmp_path, SampleTable.REPLICAS)
    rows, before = 3 * len(whole) + RUNS * len(moving), sum(p.path.stat().st_size for p in parts)
    retention = Retention(tmp_path, 7, 0.0)
    took, _ = cost(lambda: retention.put_together(START_MS + 2 * HOUR_MS), 1)
    after = sum(part.path.stat().st_size for part in together(tmp_path, SampleTable.REPLICAS))
    print(
        f"an hour of {rows:,} rows put together: {took}; "
        f"{before / rows:.1f} B a row before, {after / rows:.1f} after"
    )
    sink.close()
