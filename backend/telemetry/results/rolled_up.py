"""Roll-ups of hours and days, for questions over a longer time than rows of ticks are kept.

Few files are read: a day is one. Over more than a month only the first and the last day are read
by hours, and the others by days.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.delivered_files.result_files import hour_folders
from kshunt.backend.domain.pipeline.result_columns import ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import RollUp
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.telemetry.results.hours_cache import CachedHours, HoursCache
from kshunt.backend.telemetry.results.result_columns import moment

LONG_MS: Final = 4 * DAY_MS
"""Longer times are read from roll-ups."""
BY_DAY_MS: Final = 31 * DAY_MS
"""Longer times are read from roll-ups of days."""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What is rolled up of a time."""

    rows: Any = None
    """With a column `start`; None where there are none."""
    until_ms: int = 0
    """Hours that begin from then on are not in it."""
    longest_ms: int = HOUR_MS
    """No row is of a longer time."""
    since_ms: int | None = None
    """Rows before that are not read yet; None where all are."""
    problem: str = ""


def read_rolled_up(
    folder: Path,
    one: RollUp,
    cache: Callable[[ResultTable], HoursCache],
    since_ms: int,
    until_ms: float = math.inf,
) -> RolledUp:
    """The rows between two moments, of whole hours."""
    days = hour_folders(folder / one.by_hour.name)
    if not days:
        return RolledUp()
    newest_ms = days[-1].start_ms
    end_ms = int(min(until_ms, newest_ms + DAY_MS))
    first_ms, last_ms = -(-since_ms // DAY_MS) * DAY_MS, min(newest_ms, end_ms - end_ms % DAY_MS)
    by_day = one.by_day if end_ms - since_ms > BY_DAY_MS and last_ms > first_ms else None
    spans = [(one.by_hour, since_ms, end_ms)]
    if by_day is not None:
        spans = [
            (one.by_hour, since_ms, first_ms),
            (by_day, first_ms, last_ms),
            (one.by_hour, last_ms, end_ms),
        ]
    parts: list[Any] = []
    unread: list[int] = []
    problem = ""
    for table, from_ms, to_ms in spans:
        if from_ms < to_ms:
            found = cache(table).since(from_ms - from_ms % DAY_MS, until_ms=to_ms)
            parts += _between(found, table, from_ms, to_ms)
            unread += [] if found.since_ms is None else [found.since_ms]
            problem = problem or found.problem
    rows = pa.concat_tables(parts) if parts else None
    longest_ms = HOUR_MS if by_day is None else DAY_MS
    until = _until(cache(one.by_hour).since(newest_ms))
    return RolledUp(rows, until, longest_ms, max(unread, default=None), problem)


def _between(found: CachedHours, table: ResultTable, from_ms: int, to_ms: int) -> list[Any]:
    rows = found.all()
    if rows is None:
        return []
    if "start" in table.names:
        rows = rows.drop_columns(["day", "made_of"])
    else:
        rows = rows.rename_columns(["start" if n == "day" else n for n in rows.column_names])
    start = rows["start"]
    wanted = pc.and_(pc.greater_equal(start, moment(from_ms)), pc.less(start, moment(to_ms)))
    return [rows.filter(wanted)]


def _until(found: CachedHours) -> int:
    """When the newest hour ends."""
    rows = found.all()
    if rows is None or not len(rows):
        return 0
    newest: int = pc.max(rows["start"].cast(pa.int64())).as_py()
    return newest + HOUR_MS
