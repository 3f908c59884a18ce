"""How fast replicas catch up, from one sample to the next.

Goals
    A rate that is right on average for a throttled follower, which is served in bursts. It fetches
    a partition's megabyte in one piece. Then it waits until the quota has paid for that and for
    those of its other partitions.
Algorithm
    An average over all of the time watched, which turns into an exponentially weighted one with
    the time constant `RATE_WINDOW_S` once that much time has passed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas, ReplicaStatus
from kshunt.backend.telemetry.sampling.replica_lags import RowIndex

RATE_WINDOW_S: Final = 30.0

RATES: Final = (
    ("catch_up_messages_per_s", "lag_messages", -1),
    ("catch_up_bytes_per_s", "lag_bytes", -1),
    ("fetched_bytes_per_s", "size_bytes", 1),
)
"""Rate, the column whose change it is, and the sign of a change for the better."""


class CatchUpRates:
    """Remembers the last sample of each row, and for how long each of its rates was watched."""

    def __init__(self) -> None:
        self._index: RowIndex | None = None
        self._replicas: Replicas | None = None
        self._watched_s: dict[str, NDArray[np.float64]] = {}
        self.last_lag_bytes: NDArray[np.int64] = np.zeros(0, np.int64)
        """What each row of the last update lacked when that was last known, or UNKNOWN."""

    def update(self, index: RowIndex, current: Replicas) -> Replicas:
        """Fill in `current`'s rates, in place, from what changed since the last call.

        A row that was not read again keeps its rates. A replica that is in sync has no catch-up
        rate, and its ETA is 0; one that is offline has no rate, whatever it had before. A rate
        needs two samples of a row.
        """
        watched_s = {rate: np.zeros(len(current)) for rate, _, _ in RATES}
        old, old_index = self._replicas, self._index
        last_lag_bytes = current.lag_bytes.astype(np.int64)
        if old is not None and old_index is not None and len(old) and len(current):
            numbers = old_index.topic_numbers(index.assignment.topics)
            rows = old_index.rows(numbers[current.topic_index], current.partition, current.broker)
            remembered = np.where(rows >= 0, self.last_lag_bytes[rows], UNKNOWN)
            last_lag_bytes = np.where(last_lag_bytes == UNKNOWN, remembered, last_lag_bytes)
            for rate, source, sign in RATES:
                watched_s[rate] = self._blend(current, old, rows, rate, source, sign)
        in_sync = current.status == ReplicaStatus.IN_SYNC
        down = current.status == ReplicaStatus.OFFLINE
        for watched in watched_s.values():
            watched[in_sync | down] = 0.0
        current.catch_up_messages_per_s[in_sync | down] = np.nan
        current.catch_up_bytes_per_s[in_sync | down] = np.nan
        current.fetched_bytes_per_s[down] = np.nan
        current.eta_s[in_sync] = 0.0
        self._index, self._replicas, self._watched_s = index, current, watched_s
        self.last_lag_bytes = last_lag_bytes
        return current

    def _blend(
        self,
        current: Replicas,
        old: Replicas,
        rows: NDArray[np.int64],
        rate: str,
        source: str,
        sign: int,
    ) -> NDArray[np.float64]:
        """Write one rate of the rows that were read again; the seconds it has been watched."""
        matched = rows >= 0
        then_ms = np.where(matched, old.sampled_ms[rows], UNKNOWN)
        elapsed_s = (current.sampled_ms - then_ms) / 1000.0
        before, after = getattr(old, source)[rows], getattr(current, source)
        fresh = matched & (current.sampled_ms > 0) & (then_ms > 0) & (elapsed_s > 0)
        fresh &= (before != UNKNOWN) & (after != UNKNOWN)
        watched_s = np.where(matched, self._watched_s[rate][rows], 0.0)
        watched_s += np.where(fresh, elapsed_s, 0.0)
        old_rate = np.where(matched, getattr(old, rate)[rows], np.nan)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.maximum(elapsed_s / watched_s, 1.0 - np.exp(-elapsed_s / RATE_WINDOW_S))
            latest = sign * (after - before) / elapsed_s
            blended = np.where(np.isnan(old_rate), latest, old_rate + share * (latest - old_rate))
        getattr(current, rate)[:] = np.where(fresh, blended, old_rate)
        return watched_s
