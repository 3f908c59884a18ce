"""Samples of a large cluster, as a recorder flushes them: a file has one of each replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.pipeline.sample_columns import hour_folder, replica_ids
from kshunt.backend.files import make_folder, replace_file
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet

TOPICS: Final = 2_000
BROKERS: Final = 100


class Recording:
    """Replicas of a large cluster, and a file of samples of all of them at each flush."""

    def __init__(
        self, folder: Path, replicas: int, throttle_bytes_per_s: int | None = None
    ) -> None:
        """A tenth of the replicas is copied, with this rate in force at both ends, or none."""
        self.folder, self.number, self.replicas = folder, 0, replicas
        self.throttle_bytes_per_s = throttle_bytes_per_s
        rng = np.random.default_rng(1)
        place = np.arange(replicas)
        self.topics = pa.array([f"topic-{i}" for i in range(TOPICS)])
        self.topic = place % TOPICS
        self.partition = (place // TOPICS).astype(np.int32)
        self.broker = (place % BROKERS).astype(np.int32)
        self.leader = ((place + 1) % BROKERS).astype(np.int32)
        names = self.topics.to_pylist()
        self.rid = replica_ids(names, self.topic, self.partition, self.broker)
        self.adding = place % 10 == 0
        self.phase_ms = rng.integers(0, 1000, replicas)
        self.end = rng.integers(0, 10**6, replicas)
        self.ahead = np.where(self.adding, 10**7, 0)

    def flush(self, now_ms: int) -> None:
        """Write a sample of each, of this moment or up to a second before."""
        self.end = self.end + np.where(self.adding, 5_000, 500)
        at = pa.array(now_ms - self.phase_ms, pa.timestamp("ms", "UTC"))
        leader_end = self.end + self.ahead
        rate = self.throttle_bytes_per_s
        throttle = pa.array(np.full(self.replicas, rate or 0), mask=~self.adding | (rate is None))
        columns: dict[str, Any] = {
            "at": at,
            "rid": self.rid,
            "topic": self.topics.take(pa.array(self.topic)),
            "partition": self.partition,
            "broker": self.broker,
            "leader": self.leader,
            "leader_at": at,
            "leader_log_end_offset": leader_end,
            "leader_size_bytes": leader_end * 1_000,
            "log_end_offset": self.end,
            "size_bytes": self.end * 1_000,
            "lag_messages": self.ahead,
            "lag_bytes": self.ahead * 1_000,
            "in_isr": ~self.adding,
            "adding": self.adding,
            "removing": np.zeros(self.replicas, np.bool_),
            "leader_throttle_bytes_per_s": throttle,
            "follower_throttle_bytes_per_s": throttle,
        }
        schema = SCHEMAS[SampleTable.REPLICAS]
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(self.replicas, field.type)
            for field in schema
        ]
        content = parquet(pa.table(arrays, schema=schema), SampleTable.REPLICAS, "bench")
        self.number += 1
        folder = self.folder / SampleTable.REPLICAS / hour_folder(now_ms - 1_000)
        make_folder(folder)
        replace_file(folder / file_name(now_ms, self.number), content)
