"""What is expected of recorded rows, and what becomes of those that break it.

Nothing is dropped silently. A row that no table can be made from is quarantined with its reasons.
Of duplicates one is kept and the others are counted. What is only odd is counted and kept.

Replica samples are looked at where rates are made of them
(`kshunt.backend.pipeline.kernels.quality`). For Spark the conditions are SQL:
`kshunt.backend.pipeline.samples.row_fitness`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.pipeline.result_columns import GAP_S
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS

EARLIEST_MS: Final = 1_735_689_600_000
"""2025-01-01: no clock that was right has recorded anything before it."""
AHEAD_MS: Final = 5 * 60_000
"""How far a clock may be ahead of this machine's."""
BEHIND_MS: Final = DAY_MS
"""How far before its own hour's folder a row's time may be."""


class RowOutcome(enum.StrEnum):
    """What becomes of a row that breaks an expectation."""

    QUARANTINED = "quarantined"
    DROPPED = "dropped"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Expectation:
    """Something that holds of every row."""

    name: str
    outcome: RowOutcome
    meaning: str
    holds: str = ""
    """By SQL, where Spark looks at it; a condition that is null is not broken. May name,
    in addition to the columns, `at_ms`, `earliest_ms` and `latest_ms`."""


FILES: Final = "files"
"""Stands for the recorded table where files are counted, not rows."""
READABLE: Final = Expectation(
    "readable",
    RowOutcome.QUARANTINED,
    "the file can be read, and is of its table, its cluster and a known version",
)


def keys_known(names: Iterable[str]) -> Expectation:
    """These columns are never null."""
    condition = " and ".join(f"{name} is not null" for name in names)
    meaning = "all required columns are present"
    return Expectation("keys_known", RowOutcome.QUARANTINED, meaning, condition)


def not_negative(name: str, columns: Iterable[str], meaning: str) -> Expectation:
    """These columns are 0 or more, or not known."""
    condition = " and ".join(f"coalesce({column}, 0) >= 0" for column in columns)
    return Expectation(name, RowOutcome.QUARANTINED, meaning, condition)


TIME_PLAUSIBLE: Final = Expectation(
    "time_plausible",
    RowOutcome.QUARANTINED,
    "its time is at most 5 minutes ahead, and not long before its recording",
    "at_ms between earliest_ms and latest_ms",
)
_KEYS: Final = ("at", "rid", "topic", "partition", "broker", "in_isr", "adding", "removing")
_SIZES: Final = ("size_bytes", "leader_size_bytes", "lag_bytes")
_OFFSETS: Final = ("log_end_offset", "leader_log_end_offset")

REPLICA_EXPECTATIONS: Final = (
    keys_known(_KEYS),
    TIME_PLAUSIBLE,
    not_negative("lag_not_negative", ("lag_messages",), "lag_messages is at least 0"),
    not_negative("sizes_not_negative", _SIZES, "no size is below 0"),
    not_negative("offsets_not_negative", _OFFSETS, "no log ends below 0"),
    Expectation("unique", RowOutcome.DROPPED, "one row for each replica and time"),
    Expectation(
        "not_ahead_of_leader",
        RowOutcome.KEPT,
        "its log end is not after its leader's, unless the leader changed",
    ),
    Expectation("log_grows", RowOutcome.KEPT, "its log does not get shorter under one leader"),
    Expectation("no_gap", RowOutcome.KEPT, f"the next sample comes within {GAP_S} s"),
)


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Between which times a row's may be, in milliseconds."""

    earliest_ms: int
    latest_ms: int

    @classmethod
    def of(cls, first_hour_ms: int, now_ms: int) -> TimeBounds:
        """Of a recording whose first hour is looked at, by a clock that says `now_ms`."""
        return cls(max(EARLIEST_MS, first_hour_ms - BEHIND_MS), now_ms + AHEAD_MS)
