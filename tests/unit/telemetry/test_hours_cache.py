"""How far back an answer says that it goes, where there was no time to read everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kshunt.backend.clock import SystemClock
from kshunt.backend.delivered_files.columns import read_columns
from kshunt.backend.domain.pipeline.result_columns import RATES, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import COPIES_BY_HOUR
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.telemetry.results.hours_cache import CachedHours, HoursCache
from tests.support.pipeline.delivered import write

START_MS = 1_763_769_600_000
"""2025-11-22 00:00 UTC."""
A_TABLE = [(RATES, "at"), (COPIES_BY_HOUR, "start")]


class Impatient(SystemClock):
    """A clock on which any time limit passes immediately: of each hour one file is read."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 1_000.0
        return self._now_s


def cache_of(folder: Path, table: ResultTable, column: str) -> HoursCache:
    """Which reads nothing in the background."""

    def times(path: Path) -> Any:
        return read_columns(path, table, [column])

    found = HoursCache(folder, table, times, lambda rows: rows, Impatient())
    found.stop()
    return found


def moments(found: CachedHours, column: str) -> list[int]:
    rows = found.all()
    return [] if rows is None else sorted(rows[column].cast(pa.int64()).to_pylist())


@pytest.mark.parametrize(("table", "column"), A_TABLE, ids=lambda one: getattr(one, "name", one))
def test_of_what_is_said_to_be_read_no_row_lacks(
    table: ResultTable, column: str, tmp_path: Path
) -> None:
    """Folders of an hour, and those of a day, with several files each."""
    every_ms = table.folder_ms // 4
    rows = [{column: START_MS + n * every_ms, "day": START_MS} for n in range(12)]
    for n, row in enumerate(rows):
        day = {"day": row[column] // DAY_MS * DAY_MS}
        write(tmp_path, table, [row | day], f"batch_id={n}")
    cache = cache_of(tmp_path, table, column)
    reached = []
    for _ in range(len(rows) + 1):
        found = cache.since(START_MS)
        whole_ms = START_MS if found.since_ms is None else found.since_ms
        reached.append(whole_ms)
        wanted = [row[column] for row in rows if row[column] >= whole_ms]
        assert [at for at in moments(found, column) if at >= whole_ms] == wanted
        if found.since_ms is None:
            break
    assert reached == sorted(reached, reverse=True)
    assert reached[0] == START_MS + 3 * table.folder_ms
    assert reached[-1] == START_MS
    assert len(moments(cache.since(START_MS), column)) == len(rows)


def test_a_folder_that_reaches_into_the_time_is_read(tmp_path: Path) -> None:
    rows = [{"day": START_MS, "start": START_MS + hour * HOUR_MS} for hour in range(24)]
    write(tmp_path, COPIES_BY_HOUR, rows, "batch_id=0")
    cache = cache_of(tmp_path, COPIES_BY_HOUR, "start")
    found = cache.since(START_MS + 5 * HOUR_MS).all()
    assert pc.max(found["start"].cast(pa.int64())).as_py() == START_MS + 23 * HOUR_MS
