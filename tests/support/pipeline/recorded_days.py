"""A recording of some hours on each of two days, that are far enough apart for rows to expire.

Replicas to which everything happens that may are copied by operations, others rest. A copy arrives,
and a follower leaves the ISR, just where an hour ends. A row and a file cannot be used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder
from kshunt.backend.pipeline.results.maintenance import KeptDays
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from tests.support.pipeline.recorded import START_MS, Row, sample, throttled, write
from tests.support.pipeline.recorded_brokers import simulated_brokers, write_brokers
from tests.support.pipeline.streamed import by_time

HOUR_S: Final = HOUR_MS // 1000
DAYS: Final = (0, 2)
SECONDS: Final = 2 * HOUR_S + 2_100
"""Recorded of each of these days."""
KEPT: Final = KeptDays(1, 730)
"""On the second day the ticks of the first one expire."""
APART_S: Final = 30
FLUSH_S: Final = 1_200
LATE_MS: Final = 3_000
"""The time from the last row of a file until it is there."""


def record(folder: Path) -> None:
    """Write it. A file was last modified when the recorder wrote it."""
    number = 1
    for day in DAYS:
        of_day = [_later(row, day) for row in _rows_of_day(day)]
        for flush in by_time(of_day, FLUSH_S):
            bad = _later(sample(0, 5, rid=77, size_bytes=-5), day)
            some = [*flush, bad | {"at": flush[0]["at"]}] if number % 4 == 3 else flush
            paths = write(folder, some, number=number)
            number += len(paths)
            _at(paths, flush[-1])
        brokers = simulated_brokers(seed=day, brokers=3, seconds=SECONDS, every_s=60)
        write_brokers(folder, [_later(row, day) for row in brokers], number=10_000 + day)
    damaged = folder / SampleTable.REPLICAS / hour_folder(START_MS) / file_name(START_MS, 999)
    damaged.write_bytes(b"not a file of anyone's")
    _at([damaged], of_day[-1])


def _later(row: Row, days: int) -> Row:
    by = timedelta(days=days)
    return row | {name: row[name] + by for name in ("at", "leader_at") if name in row}


def _at(paths: Sequence[Path], row: Row) -> None:
    at_ns = (round(row["at"].timestamp() * 1000) + LATE_MS) * 1_000_000
    for path in paths:
        os.utime(path, ns=(at_ns, at_ns))


def _rows_of_day(day: int) -> list[Row]:
    rows = [*_resting(), *_copied()]
    seen: set[tuple[int, int]] = set()
    for row in sorted(throttled(31 + day, 4, SECONDS), key=lambda row: row["at"]):
        key = (row["rid"], int(row["at"].timestamp()) // APART_S)
        if key not in seen:
            seen.add(key)
            rows.append(row | {"operation_id": f"op-{day}" if row["adding"] else None})
    return sorted(rows, key=lambda row: row["at"])


def _resting() -> list[Row]:
    """A leader and two followers, of which one leaves the ISR around the end of the first hour."""
    return [
        sample(
            at + broker,
            at * 10 - (500 if out else 0),
            rid=500 + broker,
            broker=broker,
            leader_log_end_offset=at * 10,
            leader_size_bytes=at * 1_000,
            in_isr=not out,
            adding=False,
        )
        for at in range(0, SECONDS, 60)
        for broker in (1, 2, 3)
        for out in [broker == 3 and HOUR_S <= at < HOUR_S + 400]
    ]


def _copied() -> list[Row]:
    """A replica that an operation adds, and that is in the ISR from the first hour's end on."""
    end = HOUR_S
    return [
        sample(
            at + 5,
            min(at, end) * 100,
            rid=600,
            leader_log_end_offset=end * 100,
            leader_size_bytes=end * 10_000,
            in_isr=at >= end,
            adding=at < end,
            operation_id="op-copied" if at < end else None,
            follower_throttle_bytes_per_s=1_000_000 if at < end else None,
        )
        for at in range(end - 1_200, end + 600, 30)
    ]
