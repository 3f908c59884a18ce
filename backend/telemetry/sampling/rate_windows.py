"""What replicas get and what is written to them, over minutes: what a forecast uses.

Goals
    A forecast that does not jump: bursts of a throttle and of producers pass, a change stays.
Constraints
    Only rows that may matter are remembered (`candidates`), by keys that stay the same.
Algorithm
    1. What a replica's log grew by is averaged, over minutes and over seconds. A mean over all of
       the time watched turns into an exponentially weighted one. A replica that could not copy,
       because a broker was down or it was held, starts afresh: the outage tells nothing. So does
       one whose throttle has another rate. For `SETTLES_S` nothing is said of it then: a throttled
       follower is served in bursts, and until they average out the throttle itself says more.
       The same seconds of a copy that begins leave the mean when they are over: copies begin one
       by one, or with a burst.
    2. Of two copies that share what limits them, one gets twice as much once the other has ended,
       long before its own mean says so. What the broker sends to all of them stays what it was. So
       that is averaged by broker, too, and parted as the last seconds say.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.snapshot_copies import RowRates
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Replicas
from kshunt.backend.domain.replicas.stuck_causes import IDLE_CAUSES, Cause
from kshunt.backend.telemetry.stuck.throttle_shares import numbered

SLOW_S: Final = 150.0
BROKER_S: Final = 150.0
LATEST_S: Final = 8.0
PART_MOST: Final = 3.0
"""What a copy got over the last seconds is corrected by no more than this factor."""
_MEANS: Final = ("slow", "latest")
SETTLES_S: Final = 12.0
"""About Kafka's window of quotas, in which a follower's bursts average out."""
RESTARTED_S: Final = SETTLES_S + LATEST_S
"""By then each mean has begun anew, that of a broker as the last one."""
STOPPED: Final = np.array([*IDLE_CAUSES, Cause.PAUSED, Cause.THROTTLE_FLOOR], np.uint8)
"""Causes while which nothing is copied."""
LATELY: Final = 0.3
"""Weight of the half minute in what is written: bursts pass."""


@dataclass(frozen=True, eq=False)
class _Remembered:
    """Of each row; arrays have shape (rows,). NaN is what is not known."""

    keys: Ints
    """Sorted."""
    at_ms: Floats
    size_bytes: Floats
    lag_bytes: Floats
    behind_ms: Floats
    """Since when it has been copying without a break."""
    copied_s: Floats
    """How much of this is in the means."""
    settles_ms: Floats
    """Until when nothing is said of what it copies, as its throttle has another rate."""
    written_s: Floats
    slow: Floats
    latest: Floats
    written: Floats


_COLUMNS: Final = tuple(one.name for one in fields(_Remembered) if one.name != "keys")
_NOTHING: Final = _Remembered(np.empty(0, np.int64), *(np.empty(0) for _ in _COLUMNS))


class RateWindows:
    """Remembers the last snapshot's rows."""

    def __init__(self) -> None:
        self._last = _NOTHING
        self._sent, self._received = _BrokerMeans(), _BrokerMeans()

    def update(
        self,
        rows: Replicas,
        keys: Ints,
        written: Floats,
        now_ms: int,
        rerated: Mask | None = None,
    ) -> RowRates:
        """Take rows in, and say what is known of them.

        `keys` are the same for the same replica in every call, `written` bytes a second to each
        row's partition over half a minute. `rerated` are the rows of copies whose throttle has
        another rate than in the call before.
        """
        last = self._carried(keys)
        nothing = np.zeros(len(keys), np.bool_)
        rerated_rows = nothing if rerated is None else rerated
        at_ms = np.where(rows.sampled_ms == UNKNOWN, np.nan, rows.sampled_ms)
        size = np.where(rows.size_bytes == UNKNOWN, np.nan, rows.size_bytes)
        stopped = rows.in_isr | np.isin(rows.cause, STOPPED)
        passed_s = np.nan_to_num(np.maximum(at_ms - last.at_ms, 0.0) / 1000)
        # Nobody knows when within the time since the last look one began.
        afresh = rerated_rows | np.isnan(last.behind_ms)
        copied_s = np.where(stopped | afresh, 0.0, np.nan_to_num(last.copied_s) + passed_s)
        settles_ms = np.where(rerated_rows, now_ms + SETTLES_S * 1000, last.settles_ms)
        written_s = np.nan_to_num(last.written_s) + passed_s
        grown = np.full(len(keys), np.nan)
        np.divide(
            size - last.size_bytes, passed_s, out=grown, where=(passed_s > 0) & ~stopped & ~afresh
        )

        def mean(before: Floats, newest: Floats, all_s: Floats, constant_s: float) -> Floats:
            return _towards(before, newest, _share(passed_s, all_s, constant_s))

        fresh = {name: np.where(stopped | afresh, np.nan, getattr(last, name)) for name in _MEANS}
        begun_ms = np.where(np.isnan(last.behind_ms), float(now_ms), last.behind_ms)
        now = _Remembered(
            keys,
            np.where(np.isnan(at_ms), last.at_ms, at_ms),
            np.where(np.isnan(size), last.size_bytes, size),
            np.where(rows.lag_bytes == UNKNOWN, last.lag_bytes, rows.lag_bytes),
            np.where(stopped, np.nan, begun_ms),
            copied_s,
            settles_ms,
            written_s,
            mean(fresh["slow"], grown, _counted_s(copied_s, passed_s, SETTLES_S), SLOW_S),
            mean(fresh["latest"], grown, copied_s, LATEST_S),
            mean(last.written, written, written_s, SLOW_S),
        )
        self._remember(now)
        settled = ~(now_ms < settles_ms)
        latest = np.where(settled, now.latest, np.nan)
        slow = np.where(settled, now.slow, np.nan)
        flows = np.where(np.isnan(latest), 0.0, np.maximum(latest, 0.0))
        return RowRates(
            _towards(now.written, written, np.full(len(keys), LATELY)),
            np.fmin(now.written, written),
            written,
            _towards(slow, latest, np.full(len(keys), 0.5)),
            latest * self._sent.update(rows.leader, flows, now_ms),
            latest * self._received.update(rows.broker, flows, now_ms),
            latest,
            np.where(settled, np.nan, now.slow),
            np.nan_to_num((now_ms - now.behind_ms) / 1000),
            now.lag_bytes,
        )

    def _carried(self, keys: Ints) -> _Remembered:
        """What was remembered, on these rows."""
        last = self._last
        if not len(last.keys):
            nothing = (np.full(len(keys), np.nan) for _ in _COLUMNS)
            return _Remembered(keys, *nothing)
        place = np.minimum(np.searchsorted(last.keys, keys), len(last.keys) - 1)
        found = last.keys[place] == keys
        columns = (np.where(found, getattr(last, name)[place], np.nan) for name in _COLUMNS)
        return _Remembered(keys, *columns)

    def _remember(self, now: _Remembered) -> None:
        order = np.argsort(now.keys)
        columns = (getattr(now, name)[order] for name in _COLUMNS)
        self._last = _Remembered(now.keys[order], *columns)


class _BrokerMeans:
    """What passes at each broker, all copies together, over a while."""

    def __init__(self) -> None:
        self._means: dict[int, tuple[float, float]] = {}
        """By broker: the mean, and the seconds that are in it."""
        self._at_ms: int | None = None

    def update(self, broker: NDArray[np.int32], flows: Floats, now_ms: int) -> Floats:
        """Take flows in; for each row the mean of its broker over what passes there now."""
        passed_s = 0.0 if self._at_ms is None else max(now_ms - self._at_ms, 0) / 1000
        self._at_ms = now_ms
        ids, place = numbered(broker)
        totals = np.bincount(place, flows, len(ids))
        last = [
            self._means.get(id, (total, 0.0))
            for id, total in zip(ids.tolist(), totals.tolist(), strict=True)
        ]
        before, seconds = np.array(last, np.float64).reshape(-1, 2).T
        seconds = seconds + passed_s
        passed = np.full(len(ids), passed_s)
        all_s = _counted_s(seconds, passed, RESTARTED_S)
        means = before + _share(passed, all_s, BROKER_S) * (totals - before)
        some = totals > 0
        kept = zip(ids[some].tolist(), means[some].tolist(), seconds[some].tolist(), strict=True)
        self._means = {id: (mean, whole_s) for id, mean, whole_s in kept}
        factors = np.ones(len(ids))
        np.divide(means, totals, out=factors, where=some)
        return np.clip(factors, 1 / PART_MOST, PART_MOST)[place]


def _counted_s(seconds: Floats, passed_s: Floats, begins_s: float) -> Floats:
    """How much time a mean is of: it starts again at `begins_s`, without what was before."""
    return np.where(seconds > begins_s, np.maximum(seconds - begins_s, passed_s), seconds)


def _share(passed_s: Floats, all_s: Floats, constant_s: float) -> Floats:
    """What the newest weighs in a mean over `all_s`, or over `constant_s` if that is less."""
    whole = np.divide(passed_s, all_s, out=np.ones(len(all_s)), where=all_s > 0)
    found: Floats = np.maximum(whole, 1 - np.exp(-passed_s / constant_s))
    return found


def _towards(before: Floats, now: Floats, share: Floats) -> Floats:
    """The mean moved by a share of what it is off; what is not known changes nothing."""
    moved = before + share * (now - before)
    return np.where(np.isnan(now), before, np.where(np.isnan(before), now, moved))
