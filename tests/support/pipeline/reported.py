"""An operation that never was, as samples and as results: what reports are tested on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    QUALITY,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import SampleColumn, Type, hour_folder
from tests.support.pipeline.load_reference import ms, reference_effects
from tests.support.pipeline.rates_reference import reference_rates
from tests.support.pipeline.recorded import START_MS, Row, sample, time_of

OPERATION = "op-7f3a"
TOPIC = "orders|<b>eu</b>"
"""Its name would be markup, if somebody let it."""
MB = 1_000_000
SECONDS = 660
_TYPES = {
    Type.TIME: pa.timestamp("us", tz="UTC"),
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
}


def arrow(columns: Iterable[SampleColumn], rows: Sequence[Row]) -> pa.Table:
    """The rows in the columns of a table of results; what is missing is null."""
    return pa.table(
        {c.name: pa.array([r.get(c.name) for r in rows], _TYPES[c.type]) for c in columns}
    )


def write_results(folder: Path, table: ResultTable, rows: Sequence[Row], batch: int = 0) -> None:
    """As the streaming job writes them."""
    by_hour: dict[str, list[Row]] = {}
    for row in rows:
        by_hour.setdefault(hour_folder(ms(row[table.hour_of])), []).append(row)
    for hour, some in by_hour.items():
        path = folder / table.name / hour / f"batch_id={batch}" / "part-00000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(table.columns, some), path)


def moved(until_s: int = SECONDS) -> list[Row]:
    """Samples of four partitions whose replicas go from brokers 1 and 2 to 4 and 5.

    The rate doubles after four minutes, and broker 5 stops copying for a minute and a half. A
    leader changes, and a follower that stays falls out of the ISR for a while.
    """
    rows: list[Row] = []
    for partition in range(4):
        destination, leader = 4 + partition % 2, 1 + partition // 2
        copied = 0.0
        for at_s in range(0, until_s, 5):
            rate = (20 if at_s < 240 else 40) * MB
            stuck = destination == 5 and 300 <= at_s < 390
            written = 4_000 * MB + MB * at_s // 2
            copied = min(copied + (0 if stuck else 5 * rate / 2), written)
            done = copied >= written
            about = {
                "topic": TOPIC,
                "partition": partition,
                "leader": 3 if partition == 0 and at_s >= 200 else leader,
                "leader_log_end_offset": written // 1000,
                "leader_size_bytes": written,
                "operation_id": OPERATION,
            }
            rows.append(
                sample(
                    at_s,
                    round(copied / 1000),
                    rid=100 + partition,
                    broker=destination,
                    **about,
                    size_bytes=round(copied),
                    in_isr=done,
                    adding=not done,
                    follower_throttle_bytes_per_s=rate,
                    leader_throttle_bytes_per_s=None if partition == 3 else 2 * rate,
                    cause="BROKER_DOWN" if stuck else None,
                )
            )
            if partition < 2:
                size = {"size_bytes": written, "in_isr": True, "adding": False}
                own = about | size | {"leader": leader, "removing": not done}
                rows.append(
                    sample(at_s, written // 1000, rid=300 + partition, broker=leader, **own)
                )
            out = partition == 1 and 420 <= at_s < 450
            rows.append(
                sample(
                    at_s,
                    written // 1000,
                    rid=200 + partition,
                    broker=6,
                    **about,
                    size_bytes=written,
                    in_isr=not out,
                    adding=False,
                )
            )
    return rows


def stalled(**others: Any) -> Row:
    """A stall of a minute and a half."""
    return {
        "start": time_of(START_MS + 295_000),
        "end": time_of(START_MS + 385_000),
        "seconds": 90.0,
        "open": False,
        "rid": 101,
        "topic": TOPIC,
        "partition": 1,
        "broker": 5,
        "leader": 1,
        "lag_start_messages": 1,
        "lag_end_messages": 1,
        "lag_start_bytes": 800 * MB,
        "lag_end_bytes": 845 * MB,
        "cause": "broker_down",
        "operation_id": OPERATION,
        **others,
    }


def forecast(at_s: int, end_s: int) -> Row:
    """A forecast that is the better the later it is made."""
    left = max(end_s - at_s, 0)
    off = 1 + 0.3 * left / end_s
    return {
        "at": time_of(START_MS + at_s * 1000),
        "tick": time_of(START_MS + at_s * 1000),
        "operation_id": OPERATION,
        "copies": 4,
        "throttled": True,
        "bound": None if at_s < 10 else "follower throttle of broker 4",
        "p10_s": None if at_s < 10 else left * off * 0.7,
        "p50_s": None if at_s < 10 else left * off,
        "p90_s": None if at_s < 10 else left * off * 1.3,
        "why": "not seen for long enough" if at_s < 10 else None,
        "model": 1,
    }


def of_tables(samples: Sequence[Row], end_s: int) -> Mapping[ResultTable, list[Row]]:
    """The results of those samples."""
    rates = reference_rates(samples)
    start = time_of(START_MS)
    odd = {"period_start": start, "period_end": start + timedelta(hours=1), "of": "replicas"}
    load = {"start": start, "newest": start + timedelta(minutes=11), "disk_free_bytes": 10**12}
    return {
        RATES: rates,
        THROTTLE_EFFECT: reference_effects(rates),
        STALLS: [stalled(), stalled(rid=103, partition=3, leader=2), stalled(operation_id="other")],
        ETA: [forecast(at_s, end_s) for at_s in range(0, end_s + 60, 5)],
        QUALITY: [
            odd
            | {
                "expectation": "no_gap",
                "outcome": "kept",
                "violations": 3,
                "rows": 900,
                "meaning": "the next sample comes within 150 s",
            }
        ],
        BROKER_LOAD: [
            load
            | {
                "broker": broker,
                "disk_used_bytes": 10**12,
                "growth_bytes_per_s": grows,
                "full_in_s": 10**12 / grows if grows else None,
            }
            for broker, grows in ((4, 4.0 * MB), (5, 0.0), (6, 9.0 * MB))
        ],
    }
