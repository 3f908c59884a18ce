"""How fast replicas catch up, and when they will have, from one sample to the next.

Goals
    A rate that is right on average for a throttled follower, which is served in bursts: it fetches
    a partition's megabyte at once, and then waits until the quota has paid for it and for those
    of its other partitions.
Constraints
    "Not at this rate" is a hard word: it takes `NEVER_AFTER_S` of watching to say it. Until then
    a replica that has not come nearer has an unknown ETA.
Algorithm
    An average over all of the time watched, which turns into an exponentially weighted one with
    the time constant `RATE_WINDOW_S` once that much time has passed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backend.domain.snapshot import UNKNOWN, Replicas, ReplicaStatus
from backend.telemetry.assemble import RowIndex

RATE_WINDOW_S: Final = 30.0
NEVER_AFTER_S: Final = 30.0

RATES: Final = (
    ("catch_up_messages_per_s", "lag_messages", -1),
    ("catch_up_bytes_per_s", "lag_bytes", -1),
    ("fetched_bytes_per_s", "size_bytes", 1),
)
"""Rate, the column whose change it is, and the sign of a change for the better."""


class Rates:
    """Remembers the last sample of each row, and for how long it has been watched."""

    def __init__(self) -> None:
        self._index: RowIndex | None = None
        self._replicas: Replicas | None = None
        self._watched_s: NDArray[np.float64] = np.empty(0)

    def update(self, index: RowIndex, current: Replicas) -> Replicas:
        """Fill in `current`'s rates and ETA, in place, from what changed since the last call.

        A row that was not read again keeps its rates. A replica that is in sync has no catch-up
        rate, and its ETA is 0. A rate needs two samples of a row.
        """
        watched_s = np.zeros(len(current))
        old, old_index = self._replicas, self._index
        if old is not None and old_index is not None and len(old) and len(current):
            numbers = old_index.topic_numbers(index.assignment.topics)
            rows = old_index.rows(numbers[current.topic_index], current.partition, current.broker)
            watched_s = self._blend(current, old, rows)
        settled = current.status == ReplicaStatus.IN_SYNC
        watched_s[settled] = 0.0
        _forecast(current, settled, watched_s)
        self._index, self._replicas, self._watched_s = index, current, watched_s
        return current

    def _blend(
        self, current: Replicas, old: Replicas, rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Write the rates of rows that were read again; the seconds each row has been watched."""
        matched = rows >= 0
        then_ms = np.where(matched, old.sampled_ms[rows], UNKNOWN)
        elapsed_s = (current.sampled_ms - then_ms) / 1000.0
        fresh = matched & (current.sampled_ms > 0) & (then_ms > 0) & (elapsed_s > 0)
        watched_s = np.where(matched, self._watched_s[rows], 0.0) + np.where(fresh, elapsed_s, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.maximum(elapsed_s / watched_s, 1.0 - np.exp(-elapsed_s / RATE_WINDOW_S))
            for rate, source, sign in RATES:
                before, after = getattr(old, source)[rows], getattr(current, source)
                usable = fresh & (before != UNKNOWN) & (after != UNKNOWN)
                kept = np.where(matched, getattr(old, rate)[rows], np.nan)
                latest = sign * (after - before) / elapsed_s
                blended = np.where(np.isnan(kept), latest, kept + share * (latest - kept))
                getattr(current, rate)[:] = np.where(usable, blended, kept)
        return watched_s


def _forecast(
    current: Replicas, settled: NDArray[np.bool_], watched_s: NDArray[np.float64]
) -> None:
    """Write the ETA: 0 if settled, inf if it never arrives, NaN while that is not known."""
    current.catch_up_messages_per_s[settled] = np.nan
    current.catch_up_bytes_per_s[settled] = np.nan
    rate, lag = current.catch_up_messages_per_s, current.lag_messages
    known = ~np.isnan(rate) & (lag != UNKNOWN)
    nearer = known & (rate > 0)
    never = known & ~nearer & (watched_s >= NEVER_AFTER_S)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds: NDArray[Any] = lag / rate
    current.eta_s[:] = np.select([settled, nearer, never], [0.0, seconds, np.inf], np.nan)
