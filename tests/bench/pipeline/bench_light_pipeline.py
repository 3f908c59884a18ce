"""Results inside `kshunt serve`: what a batch costs, by how many replicas there are.

As a recorder writes them, replicas of partitions that move have a sample each second; they are a
tenth here. The other replicas have a sample each minute. A flush of 5 s is a batch. Before, there
are the files that a recorder leaves before it puts hours together; then an hour ends, with what is
made of whole hours. `KSHUNT_LIGHT_REPLICAS` says of how many replicas, with commas between.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder, replica_ids
from kshunt.backend.pipeline.light.light_job import LightJob
from kshunt.backend.pipeline.results.maintenance import KeptDays
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet
from tests.support.pipeline.delivered import rows_in
from tests.support.pipeline.recorded import START_MS, time_of
from tests.support.pipeline.recorded_brokers import broker_sample, write_brokers

pytestmark = pytest.mark.bench

REPLICAS: Final = [int(n) for n in os.environ.get("KSHUNT_LIGHT_REPLICAS", "1000").split(",")]
FORMER: Final = 12 * 110
"""Flushes of two hours but ten minutes."""
BATCHES: Final = 12 * 20
FLUSH_MS, MINUTE_MS = 5_000, 60_000
BROKERS: Final = 9
ROWS_A_SECOND: Final = 5_000
"""Bytes that a copy gains in a second, in thousands."""


class FlushClock:
    """A clock that is where the newest flush is."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def wait_s(self, seconds: float) -> None:
        raise AssertionError


class Recording:
    """Replicas of which a tenth moves, under throttles and operations."""

    def __init__(self, folder: Path, replicas: int) -> None:
        self.folder, self.replicas = folder, replicas
        place = np.arange(replicas)
        self.topics = [f"topic-{number}" for number in range(20)]
        self.topic, self.partition = place % 20, (place // 20).astype(np.int32)
        self.broker = (place % BROKERS).astype(np.int32)
        self.leader = ((place + 1) % BROKERS).astype(np.int32)
        self.rid = replica_ids(self.topics, self.topic, self.partition, self.broker)
        self.moves = place % 10 == 0
        self.phase_ms = np.random.default_rng(1).integers(0, MINUTE_MS, replicas)

    def flush(self, number: int) -> int:
        """Write the samples of a flush; when it ends."""
        start_ms = START_MS + number * FLUSH_MS
        at_ms, rows = [], []
        for second in range(FLUSH_MS // 1000):
            now_ms = start_ms + second * 1000
            due = self.moves | ((now_ms + self.phase_ms) % MINUTE_MS < 1000)
            rows.append(np.flatnonzero(due))
            at_ms.append(np.full(len(rows[-1]), now_ms))
        self._write(np.concatenate(rows), np.concatenate(at_ms), start_ms, number)
        seconds = number * FLUSH_MS / 1000
        brokers = [broker_sample(seconds, broker) for broker in range(BROKERS)]
        write_brokers(self.folder, brokers, number=2 * number + 2)
        return start_ms + FLUSH_MS

    def _write(self, rows: Any, at_ms: Any, start_ms: int, number: int) -> None:
        age_s = (at_ms - START_MS) // 1000
        moves = self.moves[rows]
        end = 100_000 + age_s * np.where(moves, ROWS_A_SECOND, 500) + self.phase_ms[rows]
        leader_end = end + np.where(moves, 10**7 - age_s * 1_000, 0)
        at = pa.array(at_ms, pa.timestamp("ms", "UTC"))
        rates = pa.array(np.full(len(rows), 50_000_000), mask=~moves)
        columns: dict[str, Any] = {
            "at": at,
            "rid": self.rid[rows],
            "topic": pa.array(self.topics).take(pa.array(self.topic[rows])),
            "partition": self.partition[rows],
            "broker": self.broker[rows],
            "leader": self.leader[rows],
            "leader_at": at,
            "leader_log_end_offset": leader_end,
            "leader_size_bytes": leader_end * 1_000,
            "log_end_offset": end,
            "size_bytes": end * 1_000,
            "lag_messages": leader_end - end,
            "lag_bytes": (leader_end - end) * 1_000,
            "in_isr": ~moves,
            "adding": moves,
            "removing": np.zeros(len(rows), np.bool_),
            "leader_throttle_bytes_per_s": rates,
            "follower_throttle_bytes_per_s": rates,
            "operation_id": pa.array(np.full(len(rows), "a1b2"), mask=~moves),
        }
        schema = SCHEMAS[SampleTable.REPLICAS]
        arrays = [
            pa.array(columns[field.name]).cast(field.type)
            if field.name in columns
            else pa.nulls(len(rows), field.type)
            for field in schema
        ]
        content = parquet(pa.table(arrays, schema=schema), SampleTable.REPLICAS, "c1")
        path = self.folder / SampleTable.REPLICAS / hour_folder(start_ms)
        path.mkdir(parents=True, exist_ok=True)
        (path / file_name(start_ms, 2 * number + 1)).write_bytes(content)


@pytest.mark.parametrize("replicas", REPLICAS)
def test_cpu_of_a_batch(tmp_path: Path, replicas: int) -> None:
    clock, recording = FlushClock(), Recording(tmp_path, replicas)
    job = LightJob(tmp_path, tmp_path / "results", KeptDays(14, 730), clock)
    for number in range(FORMER):
        clock.ms = recording.flush(number)
    job.turn()
    used_ms = []
    for number in range(FORMER, FORMER + BATCHES):
        clock.ms = recording.flush(number)
        since_s = time.process_time()
        job.turn()
        used_ms.append(1000 * (time.process_time() - since_s))
    job.release()
    loads = [row["start"] for row in rows_in(tmp_path / "results", "broker_load", "start")]
    assert time_of(START_MS + HOUR_MS) in loads, "the hour that ended meanwhile is made"
    # One batch has the load of brokers of an hour, which comes once in 720.
    *counted, hours_ms = sorted(used_ms)
    mean_ms = statistics.mean(counted)
    print(
        f"\n{replicas:,} replicas, {len(counted)} batches: CPU of a batch, mean {mean_ms:.1f} ms, "
        f"median {statistics.median(counted):.1f} ms, p95 "
        f"{counted[len(counted) * 95 // 100]:.1f} ms, most {counted[-1]:.1f} ms; of the one that "
        f"ends an hour {hours_ms:.0f} ms: {mean_ms + hours_ms / 720:.1f} ms a batch in all "
        f"(target: 50 ms); load of the machine {os.getloadavg()[0]:.1f}"
    )
