"""Recordings of replicas that never were: what a recorder would have written of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet

START_MS = 1_795_316_400_000
"""2026-11-22 03:00 UTC."""
SCHEMA = SCHEMAS[SampleTable.REPLICAS]

Row = dict[str, Any]


def time_of(at_ms: int) -> datetime:
    """As a row holds it."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)


def sample(at_s: float, offset: int | None = 0, **others: Any) -> Row:
    """One sample of a replica that is added, `at_s` seconds after `START_MS`."""
    at = time_of(START_MS + round(at_s * 1000))
    row: Row = {
        "at": at,
        "rid": 1,
        "topic": "t",
        "partition": 0,
        "broker": 2,
        "leader": 1,
        "leader_at": at,
        "leader_log_end_offset": 1_000_000,
        "leader_size_bytes": 100_000_000,
        "log_end_offset": offset,
        "size_bytes": None if offset is None else offset * 100,
        "in_isr": False,
        "adding": True,
        "removing": False,
        "leader_throttle_bytes_per_s": None,
        "follower_throttle_bytes_per_s": None,
        "cause": None,
        "operation_id": None,
        **others,
    }
    return _with_lag(row) | others


def _with_lag(row: Row) -> Row:
    end, own = row["leader_log_end_offset"], row["log_end_offset"]
    size, whole = row["size_bytes"], row["leader_size_bytes"]
    known = None not in (end, own)
    row["lag_messages"] = max(0, end - own) if known else None
    row["lag_bytes"] = max(0, whole - size) if None not in (size, whole) else None
    return row


def table(rows: Iterable[Row]) -> pa.Table:
    """The rows in a recorder's columns; what is missing is null."""
    rows = list(rows)
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in SCHEMA]
    # Rows that no recorder would write are what quality is tested with.
    return pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in SCHEMA]))


def write(folder: Path, rows: Sequence[Row], cluster: str = "c1", number: int = 1) -> list[Path]:
    """A recording of one file an hour; their paths."""
    by_hour: dict[int, list[Row]] = {}
    for row in rows:
        at_ms = round(row["at"].timestamp() * 1000)
        by_hour.setdefault(at_ms - at_ms % HOUR_MS, []).append(row)
    paths = []
    for hour, some in sorted(by_hour.items()):
        path = folder / "replicas" / hour_folder(hour) / file_name(hour, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parquet(table(some).cast(SCHEMA), SampleTable.REPLICAS, cluster))
        paths.append(path)
    return paths


@dataclass(slots=True)
class _Replica:
    """One replica, its leader, and what befalls them."""

    rid: int
    dice: random.Random
    leader: int | None = 1
    leader_end: int = 500_000
    leader_size: int = 60_000_000
    end: int = 0
    size: int = 0
    cause: str | None = None
    every_s: float = 5.0
    catch_up: int = 900
    written: int = 300
    rows: list[Row] = field(default_factory=list)

    def run(self, seconds: float) -> list[Row]:
        at_s = self.dice.uniform(0, self.every_s)
        while at_s < seconds:
            self.rows.append(self.seen(at_s))
            step = self.every_s * self.dice.uniform(0.8, 1.2) + self.pause()
            self.go_on(step)
            self.befall()
            at_s += step
        return self.rows

    def pause(self) -> float:
        return self.dice.uniform(40, 400) if self.dice.random() < 0.01 else 0.0

    def go_on(self, seconds: float) -> None:
        produced = round(self.written * seconds * self.dice.uniform(0.5, 1.5))
        self.leader_end += produced
        self.leader_size += produced * self.dice.randint(90, 130)
        if self.dice.random() < 0.05:
            self.catch_up = self.dice.choice((0, 0, 500, 900, 4000))
        copied = min(round(self.catch_up * seconds), max(0, self.leader_end - self.end))
        self.cause = "THROTTLE_TOO_LOW" if copied == 0 and self.dice.random() < 0.7 else None
        self.end += copied
        self.size += copied * self.dice.randint(90, 130)

    def befall(self) -> None:
        what = self.dice.random()
        if what < 0.01:
            self.leader = self.dice.choice((1, 3, None))
            self.leader_end -= self.dice.randint(0, 200)
        elif what < 0.02:
            self.end = max(0, self.end - self.dice.randint(1, 5000))
        elif what < 0.05:
            self.size -= self.size // 3
        elif what < 0.08:
            self.leader_size -= self.leader_size // 3

    def seen(self, at_s: float) -> Row:
        unknown, unsized = self.dice.random() < 0.03, self.dice.random() < 0.03
        in_isr = self.end >= self.leader_end
        at_s = round(at_s, 3)
        return sample(
            at_s,
            None if unknown else self.end,
            rid=self.rid,
            partition=self.rid % 100,
            broker=2 + self.rid % 3,
            leader=self.leader,
            leader_at=time_of(START_MS + round((at_s - self.dice.uniform(0, 0.9)) * 1000)),
            leader_log_end_offset=None if self.leader is None else self.leader_end,
            leader_size_bytes=None if self.leader is None else self.leader_size,
            size_bytes=None if unknown or unsized else self.size,
            in_isr=in_isr,
            adding=not in_isr,
            cause=self.cause,
            follower_throttle_bytes_per_s=100_000 if self.rid % 2 else None,
            **({"lag_messages": None, "lag_bytes": None} if unknown else {}),
        )


def simulated(seed: int, replicas: int, seconds: float) -> list[Row]:
    """Samples of replicas to which everything happens that may, in no order."""
    dice = random.Random(seed)
    rows: list[Row] = []
    for rid in range(replicas):
        life = random.Random(dice.random())
        every_s = life.choice((1.0, 5.0, 5.0, 60.0))
        start = life.choice((0, 100_000, 499_000))
        moving = _Replica(rid, life, end=start, size=start * 110, every_s=every_s)
        rows += _unique(moving.run(seconds))
    dice.shuffle(rows)
    return rows


def _unique(rows: Iterable[Row]) -> Iterator[Row]:
    seen = set()
    for row in rows:
        if row["at"] not in seen:
            seen.add(row["at"])
            yield row


def throttled(seed: int, replicas: int, seconds: float) -> list[Row]:
    """Simulated samples under rates that change, among followers that no move touches."""
    dice = random.Random(seed)
    rows = simulated(seed, replicas, seconds)
    changes = [(dice.uniform(0, seconds), dice.choice((1000, 80_000, 400_000))) for _ in range(4)]
    for row in rows:
        at_s = (row["at"] - time_of(START_MS)).total_seconds()
        rates = [rate for since_s, rate in sorted(changes) if since_s <= at_s]
        row["leader_throttle_bytes_per_s"] = rates[-1] if rates and row["rid"] % 3 else None
        if row["rid"] % 4 == 0:
            row["adding"] = False
        if row["rid"] % 7 == 0:
            row["in_isr"], row["adding"] = at_s > 100, False
        if row["rid"] % 11 == 0:
            row["removing"], row["adding"] = True, False
        if row["rid"] % 5 == 0 and not row["in_isr"]:
            row["cause"] = dice.choice(("BROKER_DOWN", None))
    return rows
