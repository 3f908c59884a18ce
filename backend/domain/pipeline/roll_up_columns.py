"""Roll-ups: what tables with a row a tick say of each hour and day, kept when their rows are gone.

Maintenance makes them of hours that are settled. A day of a roll-up is one file, in the folder of
the day's first hour. Sums are those that readers make of the rows themselves, so an answer is the
same from either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


_WEEK_SUMS: Final = (
    SampleColumn(
        "newest", Type.TIME, "the newest row of `rates`; null: the hour has none, only a folder"
    ),
    SampleColumn("own_bytes", Type.DOUBLE, "what operations of kshunt copied", "B", nullable=False),
    SampleColumn(
        "others_bytes", Type.DOUBLE, "what moves of other tools copied", "B", nullable=False
    ),
    SampleColumn(
        "behind_bytes",
        Type.DOUBLE,
        "what replicas copied that nothing moved, and that came back into the ISR",
        "B",
        nullable=False,
    ),
    SampleColumn(
        "throttled_min", Type.LONG, "minutes with a sample under a throttle", "min", nullable=False
    ),
    SampleColumn(
        "idle_min", Type.LONG, "of those, minutes without any copy", "min", nullable=False
    ),
)
_LOOKED: Final = "null: the row only says that the hour was looked at"
_OF_COPIES: Final = (
    SampleColumn("operation_id", Type.STRING, f"the operation of kshunt; {_LOOKED}"),
    SampleColumn("rid", Type.LONG, "the replica that it may have copied"),
    SampleColumn("first", Type.TIME, "the first sample with the operation", nullable=False),
    SampleColumn("last", Type.TIME, "the last one", nullable=False),
    SampleColumn("out", Type.TIME, "the last one at which it was copied; null: there is none"),
    SampleColumn("arrived", Type.TIME, "the first one in the ISR after that; null: there is none"),
    SampleColumn("added", Type.BOOL, "the operation added it"),
    SampleColumn("copied_bytes", Type.DOUBLE, "what it copied", "B", nullable=False),
)
_OF_TOPICS: Final = (
    SampleColumn("topic", Type.STRING, f"the topic's name; {_LOOKED}"),
    SampleColumn(
        "written_bytes", Type.LONG, "written to the logs of its leaders", "B", nullable=False
    ),
)
_OF_DROPS: Final = (
    SampleColumn("topic", Type.STRING, f"the topic's name; {_LOOKED}"),
    SampleColumn("partition", Type.INT, "the partition's number"),
    SampleColumn("broker", Type.INT, "the broker that hosts the replica"),
    SampleColumn("at", Type.TIME, "the first sample outside the ISR", nullable=False),
)
_OF_FORECASTS: Final = (
    SampleColumn(
        "operation_id", Type.STRING, "the operation of kshunt; null: the row is of a model"
    ),
    SampleColumn(
        "model", Type.INT, "a version of the model that made forecasts in the hour; null: none did"
    ),
    SampleColumn("at", Type.TIME, "when its first forecast in the hour was made"),
    SampleColumn("p10_s", Type.DOUBLE, "one in ten is in the ISR after this time", "s"),
    SampleColumn("p50_s", Type.DOUBLE, "half are in the ISR after this time", "s"),
    SampleColumn("p90_s", Type.DOUBLE, "nine in ten are in the ISR after this time", "s"),
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
MOVES_BY_HOUR: Final = _by_hour("moves_by_hour", "an hour", _WEEK_SUMS)
OPERATIONS_BY_HOUR: Final = _by_hour(
    "operations_by_hour", "an hour, operation and replica of its partitions", _OF_COPIES
)
TOPICS_BY_HOUR: Final = _by_hour("topics_by_hour", "an hour and topic", _OF_TOPICS)
ISR_DROPS_BY_HOUR: Final = _by_hour(
    "isr_drops_by_hour", "a replica that nothing moved, and that left the ISR", _OF_DROPS
)
FORECASTS_BY_HOUR: Final = _by_hour(
    "forecasts_by_hour", "an hour and operation, or an hour and version of the model", _OF_FORECASTS
)


@dataclass(frozen=True, slots=True)
class RollUp:
    """A table, and what is made of it.

    Rows of a day are those of its hours with the same `keys`, each other column put together as
    `together` says: by its sum, or its least or greatest value.
    """

    source: ResultTable
    by_hour: ResultTable
    by_day: ResultTable | None = None
    """None: no question is long enough for it."""
    keys: tuple[str, ...] = ()
    together: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[ResultTable, ...]:
        """All that are made."""
        return (self.by_hour,) if self.by_day is None else (self.by_hour, self.by_day)


COPIES: Final = RollUp(
    RATES,
    COPIES_BY_HOUR,
    COPIES_BY_DAY,
    together=dict.fromkeys((column.name for column in _COPIES), "sum"),
)
BOTTLENECKS: Final = RollUp(
    ETA,
    BOTTLENECKS_BY_HOUR,
    BOTTLENECKS_BY_DAY,
    keys=("operation_id", "bound"),
    together={"seconds": "sum", "first": "min", "last": "max"},
)
MOVES: Final = RollUp(RATES, MOVES_BY_HOUR)
OPERATIONS: Final = RollUp(RATES, OPERATIONS_BY_HOUR)
TOPICS: Final = RollUp(RATES, TOPICS_BY_HOUR)
ISR_DROPS: Final = RollUp(RATES, ISR_DROPS_BY_HOUR)
FORECASTS: Final = RollUp(ETA, FORECASTS_BY_HOUR)
ROLL_UPS: Final = (COPIES, BOTTLENECKS, MOVES, OPERATIONS, TOPICS, ISR_DROPS, FORECASTS)
OF_A_WEEK: Final = (MOVES, OPERATIONS, TOPICS, ISR_DROPS)
"""What a report of a week takes from `rates`, together."""
ALL_TABLES: Final = (*TABLES, *(table for one in ROLL_UPS for table in one.tables))
"""The tables that jobs make, and those that maintenance makes of them."""
