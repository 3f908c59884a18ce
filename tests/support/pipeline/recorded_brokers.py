"""Broker samples, as a recorder would have written them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet
from tests.support.pipeline.recorded import START_MS, Row, time_of

SCHEMA = SCHEMAS[SampleTable.BROKERS]


def broker_sample(at_s: float, broker: int = 1, **others: Any) -> Row:
    """One sample of a broker with a disk half full, `at_s` seconds after `START_MS`."""
    return {
        "at": time_of(START_MS + round(at_s * 1000)),
        "broker": broker,
        "answering": True,
        "leaders": 10,
        "preferred_leaders": 10,
        "replicas": 30,
        "log_bytes": 400_000_000_000,
        "disk_total_bytes": 1_000_000_000_000,
        "disk_usable_bytes": 500_000_000_000,
        "in_bytes_per_s": 0.0,
        "out_bytes_per_s": 0.0,
        "lag_in_bytes": 0,
        "lag_out_bytes": 0,
        "leader_throttle_bytes_per_s": None,
        "follower_throttle_bytes_per_s": None,
        **others,
    }


def broker_table(rows: Iterable[Row]) -> pa.Table:
    """The rows in a recorder's columns; what is missing is null."""
    rows = list(rows)
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in SCHEMA]
    return pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in SCHEMA]))


def write_brokers(folder: Path, rows: Sequence[Row], cluster: str = "c1", number: int = 1) -> None:
    """A recording of one file an hour."""
    by_hour: dict[int, list[Row]] = {}
    for row in rows:
        at_ms = round(row["at"].timestamp() * 1000)
        by_hour.setdefault(at_ms - at_ms % HOUR_MS, []).append(row)
    for hour, some in by_hour.items():
        path = folder / "brokers" / hour_folder(hour) / file_name(hour, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parquet(broker_table(some).cast(SCHEMA), SampleTable.BROKERS, cluster))


def simulated_brokers(seed: int, brokers: int, seconds: float, every_s: float = 60.0) -> list[Row]:
    """Brokers whose disks fill, are cleaned up, and are not known at times; in no order."""
    dice = random.Random(seed)
    rows = []
    for broker in range(1, brokers + 1):
        used, growth = dice.randrange(10**11), dice.choice((-2e5, 0, 1e6, 2e7))
        at_s = dice.uniform(0, every_s)
        while at_s < seconds:
            used = max(0, round(used + growth * every_s * dice.uniform(0.2, 1.8)))
            used -= used // 20 if dice.random() < 0.02 else 0
            known = dice.random() > 0.05
            rows.append(
                broker_sample(
                    at_s,
                    broker,
                    answering=dice.random() > 0.1,
                    leaders=dice.randint(0, 12),
                    disk_usable_bytes=10**12 - used if known else None,
                    in_bytes_per_s=dice.choice((None, 0.0, dice.uniform(0, 1e8))),
                    out_bytes_per_s=dice.uniform(0, 1e8),
                )
            )
            at_s += every_s * dice.uniform(0.9, 1.1)
    dice.shuffle(rows)
    return rows
