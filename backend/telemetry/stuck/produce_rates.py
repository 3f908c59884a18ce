"""What is written to each partition, in messages and bytes a second, from its leader's log.

Goals
    The rate at which a follower must fetch not to fall behind, from samples that are there anyway.
Constraints
    Retention and compaction make a log smaller while it is written to. A new leader's log may be
    shorter than the old one's. Neither may show as a negative rate or as none. A partition that
    was not read again keeps its rate. Cost is linear, with no Python loop over partitions.
Algorithm
    Offsets only grow under one leader, so messages a second are exact: what was added over the
    time that passed, both forgotten exponentially with the time constant `WINDOW_S`. Bytes are
    messages times the size of a message, which is learnt from the intervals in which nothing can
    have been deleted. In those the log did not grow by less than half of what its messages usually
    take. Where most messages of the window fell into other intervals, the size of a
    message has changed, and it is learnt anew. A new leader, or an end that went back, starts
    the partition afresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN

WINDOW_S: Final = 30.0
ENOUGH_S: Final = 3.0
"""A rate that was measured over less is not told."""
HOLD_S: Final = 15.0
"""Offsets and sizes are read separately; an end that moved waits this long for the new size."""
_USUAL_SHARE: Final = 0.5
"""Growth below this share of the usual means that something was deleted."""
_LEARNT_SHARE: Final = 0.2
"""A message's size is believed while this share of the window's messages is behind it."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leaders:
    """One row a partition: its leader's log as last read. Arrays have shape (partitions,)."""

    keys: Ints
    """Distinct, the same for the same partition in every sample."""
    leader: NDArray[np.int32]
    at_ms: Ints
    """When its end was read; -1 if never."""
    log_end_offset: Ints
    size_bytes: Ints


@dataclass(frozen=True, eq=False)
class ProduceRates:
    """Arrays of shape (partitions,); NaN where a rate is not known."""

    messages_per_s: Floats
    bytes_per_s: Floats


_SUMS: Final = ("seconds", "messages", "learnt_messages", "learnt_bytes", "watched_s")


class Produced:
    """Remembers the last sample of each partition, and what was added up since it began."""

    def __init__(self) -> None:
        self._last: Leaders | None = None
        self._sums: dict[str, Floats] = {}

    def update(self, now: Leaders) -> ProduceRates:
        """The rates of the partitions of `now`, in its order."""
        before, sums = self._carried(now)
        seconds = (now.at_ms - before.at_ms) / 1000.0
        readable = (now.at_ms >= 0) & (now.log_end_offset >= 0)
        begun = (before.at_ms >= 0) & (before.log_end_offset >= 0)
        fresh = readable & begun & (seconds > 0)
        restarts = (before.leader != now.leader) | (
            readable & begun & (now.log_end_offset < before.log_end_offset)
        )
        added = np.where(fresh, now.log_end_offset - before.log_end_offset, 0)
        # The size was not read again with the offset: both count once it was.
        held = (added > 0) & (now.size_bytes == before.size_bytes) & (seconds < HOLD_S)
        held &= now.size_bytes != UNKNOWN
        counted = fresh & ~restarts & ~held
        _add(sums, counted, np.where(counted, seconds, 0.0), added, _grown(before, now))
        for column in sums.values():
            column[restarts] = 0.0
        self._last = _newest(before, now, counted | restarts | (readable & ~begun))
        self._sums = sums
        return _rates(sums)

    def _carried(self, now: Leaders) -> tuple[Leaders, dict[str, Floats]]:
        """The last samples and the sums, on the partitions of `now`."""
        last = self._last
        if last is not None and np.array_equal(last.keys, now.keys):
            return last, {name: column.copy() for name, column in self._sums.items()}
        rows = np.full(len(now.keys), UNKNOWN, np.int64)
        if last is not None and len(last.keys):
            order = np.argsort(last.keys)
            place = np.searchsorted(last.keys, now.keys, sorter=order)
            match = order[np.minimum(place, len(order) - 1)]
            rows = np.where(last.keys[match] == now.keys, match, UNKNOWN)
        found = rows >= 0
        columns = {
            name: _placed(None if last is None else getattr(last, name), rows, found, UNKNOWN)
            for name in ("at_ms", "log_end_offset", "size_bytes")
        }
        leader = _placed(None if last is None else last.leader, rows, found, UNKNOWN)
        leader = np.where(found, leader, now.leader).astype(np.int32)
        sums = {name: _placed(self._sums.get(name), rows, found, 0.0) for name in _SUMS}
        return Leaders(keys=now.keys, leader=leader, **columns), sums


def _placed(column: Any, rows: Ints, found: NDArray[np.bool_], missing: float) -> Any:
    """A column's values on other rows, and `missing` where it has none."""
    out = np.full(len(rows), missing)
    if column is not None:
        out = out.astype(column.dtype)
        out[found] = column[rows[found]]
    return out


def _grown(before: Leaders, now: Leaders) -> Floats:
    """How many bytes each log grew by; NaN where a size is not known."""
    known = (before.size_bytes != UNKNOWN) & (now.size_bytes != UNKNOWN)
    return np.where(known, (now.size_bytes - before.size_bytes).astype(np.float64), np.nan)


def _add(
    sums: dict[str, Floats],
    counted: NDArray[np.bool_],
    seconds: Floats,
    added: Ints,
    grown: Floats,
) -> None:
    """Forget a little of the sums and add an interval to them, in place."""
    usual = _message_bytes(sums)
    believed = sums["learnt_messages"] >= _LEARNT_SHARE * sums["messages"]
    least = np.where(believed & ~np.isnan(usual), _USUAL_SHARE * usual * added, 0.0)
    with np.errstate(invalid="ignore"):
        honest = counted & (added > 0) & (grown > 0) & (grown >= least)
    decay = np.exp(-seconds / WINDOW_S)
    for name, more in (
        ("seconds", seconds),
        ("messages", np.where(counted, added, 0)),
        ("learnt_messages", np.where(honest, added, 0)),
        ("learnt_bytes", np.where(honest, grown, 0.0)),
    ):
        sums[name] = sums[name] * decay + more
    sums["watched_s"] = sums["watched_s"] + seconds


def _message_bytes(sums: dict[str, Floats]) -> Floats:
    learnt = sums["learnt_messages"]
    out = np.full(len(learnt), np.nan)
    np.divide(sums["learnt_bytes"], learnt, out=out, where=learnt > 0)
    return out


def _newest(before: Leaders, now: Leaders, use: NDArray[np.bool_]) -> Leaders:
    """The samples to measure the next interval from."""
    return Leaders(
        keys=now.keys,
        leader=now.leader,
        at_ms=np.where(use, now.at_ms, before.at_ms),
        log_end_offset=np.where(use, now.log_end_offset, before.log_end_offset),
        size_bytes=np.where(use, now.size_bytes, before.size_bytes),
    )


def _rates(sums: dict[str, Floats]) -> ProduceRates:
    seconds = sums["seconds"]
    known = (sums["watched_s"] >= ENOUGH_S) & (seconds > 0)
    messages = np.full(len(seconds), np.nan)
    np.divide(sums["messages"], seconds, out=messages, where=known)
    in_bytes = np.where(messages == 0, 0.0, messages * _message_bytes(sums))
    return ProduceRates(messages, in_bytes)
