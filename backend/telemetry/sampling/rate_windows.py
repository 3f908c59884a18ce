"""What replicas get and what is written to them, over minutes: what a forecast reckons with.

Goals
    A forecast that does not jump: bursts of a throttle and of producers pass, a change stays.
Constraints
    Only rows that may matter are remembered (`candidates`), by keys that stay the same.
Algorithm
    Rates over half a minute are those of the snapshot. Their means with the time constant
    `SLOW_S` are kept beside them, and for throttles that have just been changed one over
    `LATEST_S`. A mean over all of the time watched turns into an exponentially weighted one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints
from kshunt.backend.domain.forecast.snapshot_copies import RowRates
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas

SLOW_S: Final = 150.0
LATEST_S: Final = 6.0
LATELY: Final = 0.3
"""Weight of the half minute in what is written: bursts pass."""


@dataclass(frozen=True, eq=False)
class _Remembered:
    """Of each row; arrays have shape (rows,). NaN is what is not known."""

    keys: Ints
    """Sorted."""
    at_ms: Floats
    size_bytes: Floats
    behind_ms: Floats
    """Since when it has been out of the ISR."""
    watched_s: Floats
    fetched: Floats
    written: Floats
    latest: Floats


_NOTHING: Final = _Remembered(np.empty(0, np.int64), *(np.empty(0) for _ in range(7)))


class RateWindows:
    """Remembers the last snapshot's rows."""

    def __init__(self) -> None:
        self._last = _NOTHING

    def update(self, rows: Replicas, keys: Ints, written: Floats, now_ms: int) -> RowRates:
        """Take rows in, and say what is known of them.

        `keys` are the same for the same replica in every call, `written` bytes a second to each
        row's partition over half a minute.
        """
        last = self._carried(keys)
        at_ms = np.where(rows.sampled_ms == UNKNOWN, np.nan, rows.sampled_ms)
        size = np.where(rows.size_bytes == UNKNOWN, np.nan, rows.size_bytes)
        passed_s = np.nan_to_num(np.maximum(at_ms - last.at_ms, 0.0) / 1000)
        watched_s = np.nan_to_num(last.watched_s) + passed_s
        fetched = rows.fetched_bytes_per_s.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            slow = np.maximum(passed_s / watched_s, 1 - np.exp(-passed_s / SLOW_S))
            grown = np.where(passed_s > 0, (size - last.size_bytes) / passed_s, np.nan)
        soon = 1 - np.exp(-passed_s / LATEST_S)
        behind_ms = np.where(np.isnan(last.behind_ms), float(now_ms), last.behind_ms)
        now = _Remembered(
            keys,
            np.where(np.isnan(at_ms), last.at_ms, at_ms),
            np.where(np.isnan(size), last.size_bytes, size),
            np.where(rows.in_isr, np.nan, behind_ms),
            watched_s,
            _towards(last.fetched, fetched, slow),
            _towards(last.written, written, slow),
            _towards(last.latest, grown, soon),
        )
        self._remember(now)
        return RowRates(
            _towards(now.written, written, np.full(len(keys), LATELY)),
            np.fmin(now.written, written),
            _towards(now.fetched, fetched, np.full(len(keys), 0.5)),
            fetched,
            now.latest,
            np.nan_to_num((now_ms - now.behind_ms) / 1000),
        )

    def _carried(self, keys: Ints) -> _Remembered:
        """What was remembered, on these rows."""
        last = self._last
        if not len(last.keys):
            nothing = (np.full(len(keys), np.nan) for _ in range(7))
            return _Remembered(keys, *nothing)
        place = np.minimum(np.searchsorted(last.keys, keys), len(last.keys) - 1)
        found = last.keys[place] == keys
        columns = (
            np.where(found, getattr(last, name)[place], np.nan)
            for name in _Remembered.__dataclass_fields__
            if name != "keys"
        )
        return _Remembered(keys, *columns)

    def _remember(self, now: _Remembered) -> None:
        order = np.argsort(now.keys)
        names = _Remembered.__dataclass_fields__
        self._last = _Remembered(*(getattr(now, name)[order] for name in names))


def _towards(before: Floats, now: Floats, share: Floats) -> Floats:
    """The mean moved by a share of what it is off; what is not known changes nothing."""
    moved = before + share * (now - before)
    return np.where(np.isnan(now), before, np.where(np.isnan(before), now, moved))
