"""Roll-ups: what tables with a row a tick say of each hour and day, kept when their rows are gone.

Maintenance makes them of hours that are settled. A day of a roll-up is one file, in the folder of
the day's first hour. Sums are those that readers make of the rows themselves, so an answer is the
same from either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, TABLES, ResultTable
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, SampleColumn, Type

STREAMED: Final = "stream"
"""Stands for the run of an hour that is all of its batches."""
_DAY: Final = SampleColumn("day", Type.TIME, "when the day began", nullable=False)
_MADE_OF: Final = SampleColumn(
    "made_of",
    Type.STRING,
    "the run of the hour that it was made of; `stream`: of its batches",
    nullable=False,
)
_COPIES: Final = (
    SampleColumn(
        "sampled_s", Type.DOUBLE, "how much of the time has samples of copies", "s", nullable=False
    ),
    SampleColumn(
        "copied_bytes", Type.DOUBLE, "what all copies advanced together", "B", nullable=False
    ),
    SampleColumn("copy_s", Type.DOUBLE, "how long they took together", "s", nullable=False),
    SampleColumn(
        "lag_byte_s",
        Type.DOUBLE,
        "the lag of all of them, summed up over time; divided by `sampled_s` it is the mean lag",
        "B·s",
        nullable=False,
    ),
)
_BOUNDS: Final = (
    SampleColumn(
        "operation_id",
        Type.STRING,
        "the operation of kshunt; null: the row only says that the hour was looked at",
    ),
    SampleColumn("bound", Type.STRING, "the bottleneck, as in `eta`"),
    SampleColumn("seconds", Type.DOUBLE, "for how long it was", "s", nullable=False),
    SampleColumn("first", Type.TIME, "the first minute of it", nullable=False),
    SampleColumn("last", Type.TIME, "the last minute of it", nullable=False),
)


def _start(what: str) -> SampleColumn:
    return SampleColumn("start", Type.TIME, f"when the {what} began", nullable=False)


def _by_hour(name: str, row: str, columns: tuple[SampleColumn, ...]) -> ResultTable:
    columns = (_DAY, _start("hour"), *columns, _MADE_OF)
    return ResultTable(name, row, "day", columns, folder_ms=DAY_MS)


def _by_day(name: str, row: str, columns: tuple[SampleColumn, ...]) -> ResultTable:
    return ResultTable(name, row, "day", (_DAY, *columns), folder_ms=DAY_MS)


COPIES_BY_HOUR: Final = _by_hour("copies_by_hour", "an hour", _COPIES)
COPIES_BY_DAY: Final = _by_day("copies_by_day", "a day in which something was copied", _COPIES)
BOTTLENECKS_BY_HOUR: Final = _by_hour(
    "bottlenecks_by_hour", "an hour, operation and bottleneck", _BOUNDS
)
BOTTLENECKS_BY_DAY: Final = _by_day(
    "bottlenecks_by_day", "a day, operation and bottleneck", _BOUNDS
)


@dataclass(frozen=True, slots=True)
class RollUp:
    """A table, and what is made of it."""

    source: ResultTable
    by_hour: ResultTable
    by_day: ResultTable


COPIES: Final = RollUp(RATES, COPIES_BY_HOUR, COPIES_BY_DAY)
BOTTLENECKS: Final = RollUp(ETA, BOTTLENECKS_BY_HOUR, BOTTLENECKS_BY_DAY)
ROLL_UPS: Final = (COPIES, BOTTLENECKS)
ALL_TABLES: Final = (*TABLES, *(table for one in ROLL_UPS for table in (one.by_hour, one.by_day)))
"""The tables that jobs make, and those that maintenance makes of them."""
