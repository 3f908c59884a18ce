"""Expectations of recorded rows, on arrays of many; `kshunt.backend.pipeline.samples.expectations`
says what they are.

Rows are put in the order of replicas and times here, so that neighbours are looked at in the same
pass in which rates are made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints, known, millis

_KEYS: Final = ("at", "rid", "topic", "partition", "broker", "in_isr", "adding", "removing")
_NOT_NEGATIVE: Final = {
    "lag_not_negative": ("lag_messages",),
    "sizes_not_negative": ("size_bytes", "leader_size_bytes", "lag_bytes"),
    "offsets_not_negative": ("log_end_offset", "leader_log_end_offset"),
}


@dataclass(frozen=True, slots=True)
class Checks:
    """Which times are plausible, and of which rows violations are counted; in milliseconds."""

    earliest_ms: int
    latest_ms: int
    needed_from_ms: int
    """Rows between `earliest_ms` and this are left out."""
    count_from_ms: int
    """Rows between `earliest_ms` and this are gone on with and not counted."""
    gap_ms: int


@dataclass(frozen=True, slots=True)
class Checked:
    """Rows to use."""

    order: Ints
    """Which, by replica and time."""
    counts: dict[str, int]
    """Rows that broke each expectation, and `rows`: all that were looked at."""


def ordered(rows: Any) -> Ints:
    """All rows by replica and time."""
    return np.lexsort((millis(rows.column("at")), ints(rows.column("rid"))))


def checked(rows: Any, checks: Checks) -> Checked:
    """Look at each row, and at each with the one of its replica before it."""
    at = millis(rows.column("at"))
    before = (at >= checks.earliest_ms) & (at < checks.needed_from_ms)
    counted = ~((at >= checks.earliest_ms) & (at < checks.count_from_ms))
    counts = {"rows": int(counted.sum())}
    fit = ~before
    for name, broken in by_themselves(rows, at, checks).items():
        counts[name] = int((broken & counted).sum())
        fit &= ~broken
    order = in_order(rows, at, np.flatnonzero(fit))
    good, found = _neighbours(rows, at, order, checks)
    counts |= {name: int((broken & counted[order]).sum()) for name, broken in found.items()}
    return Checked(order[good], counts)


def by_themselves(rows: Any, at: Ints, checks: Checks) -> dict[str, Bools]:
    """Which rows break what no other row is needed for."""
    unknown = np.zeros(len(at), np.bool_)
    for name in _KEYS:
        column = rows.column(name)
        if column.null_count:
            unknown |= column.is_null().to_numpy(zero_copy_only=False)
    early_or_late = (at < checks.earliest_ms) | (at > checks.latest_ms)
    found = {"keys_known": unknown, "time_plausible": (at != NULL) & early_or_late}
    for expectation, names in _NOT_NEGATIVE.items():
        below = np.zeros(len(at), np.bool_)
        for name in names:
            values = ints(rows.column(name))
            below |= (values < 0) & (values != NULL)
        found[expectation] = below
    return found


def in_order(rows: Any, at: Ints, which: Ints) -> Ints:
    """These rows by replica and time; of those with the same key, the one that knows most first."""
    rid, when = ints(rows.column("rid"))[which], at[which]
    order = np.lexsort((when, rid))
    rid, when = rid[order], when[order]
    if not ((rid[1:] == rid[:-1]) & (when[1:] == when[:-1])).any():
        ordered: Ints = which[order]
        return ordered
    names = ("size_bytes", "leader_log_end_offset", "log_end_offset")
    # What is not known is the least of all numbers, so it comes last.
    most = [-np.maximum(ints(rows.column(name))[which], -1) for name in names]
    again: Ints = which[np.lexsort((*most, at[which], ints(rows.column("rid"))[which]))]
    return again


def _neighbours(rows: Any, at: Ints, order: Ints, checks: Checks) -> tuple[Bools, dict[str, Bools]]:
    """Which of the rows in order are kept, and which break what."""
    nothing = np.full(len(order), NULL)
    before = Before(nothing, nothing, nothing)
    twice = before.and_of(at[order], "at", _first(rows, order)) == at[order]
    return ~twice, {"unique": twice, **by_previous(rows, at, order, before, checks)}


@dataclass(frozen=True, eq=False)
class Before:
    """What is known from before of the replica of each row in order; `NULL`: nothing."""

    at: Ints
    leader: Ints
    log_end_offset: Ints

    def and_of(self, values: Ints, name: str, first: Bools) -> Ints:
        """The value of each row's predecessor, which for a `first` one is from before."""
        previous = np.empty_like(values)
        previous[1:] = values[:-1]
        previous[first] = getattr(self, name)[first]
        return previous


def by_previous(
    rows: Any, at: Ints, order: Ints, before: Before, checks: Checks
) -> dict[str, Bools]:
    """Which of the rows in order break what the row of their replica before them is needed for."""
    first = _first(rows, order)
    when = at[order]
    leader, end, leaders = (
        ints(rows.column(name))[order]
        for name in ("leader", "log_end_offset", "leader_log_end_offset")
    )
    prev_at = before.and_of(when, "at", first)
    prev_end = before.and_of(end, "log_end_offset", first)
    same_leader = leader == before.and_of(leader, "leader", first)
    leader_at = millis(rows.column("leader_at"))[order]
    ahead = known(end, leaders, leader_at) & (end > leaders) & (leader_at >= when)
    return {
        "not_ahead_of_leader": ahead & same_leader,
        "log_grows": known(end, prev_end) & (end < prev_end) & same_leader,
        "no_gap": (prev_at != NULL) & (when - prev_at > checks.gap_ms),
    }


def _first(rows: Any, order: Ints) -> Bools:
    """Which rows in order are their replica's first."""
    rid = ints(rows.column("rid"))[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = rid[1:] != rid[:-1]
    return first
