"""When what moves will be done, snapshot after snapshot.

Goals
    One forecast for everybody who reads snapshots, which does not jump from one to the next.
Constraints
    At most `SHARE` of a processor: after a forecast that took long, the next one waits. In between,
    ends stay what they were, and time goes by.
Algorithm
    `RateWindows` keeps means over minutes, so no single sample moves an end. The model of copying
    uses them (`kshunt.backend.domain.forecast.outlook`). Where a throttle gets another
    rate, what was seen under the former one counts no more: the model takes the new rate, and
    the copies are watched anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.calibration import shipped_quantiles
from kshunt.backend.domain.forecast.expected_ends import HELD, Group, expected_ends
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.operation_deadlines import with_deadlines
from kshunt.backend.domain.forecast.outlook import UNKNOWN, Outlook, outlook
from kshunt.backend.domain.forecast.ranges import COPY, SOME, held_by, ranges
from kshunt.backend.domain.forecast.snapshot_copies import (
    RowRates,
    RunningOperation,
    SnapshotCopies,
    snapshot_copies,
)
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.telemetry.sampling.rate_windows import RateWindows

EVERY_S: Final = 2.0
"""A forecast is made no oftener."""
SHARE: Final = 0.05
"""Of a processor, at most."""


@dataclass(frozen=True, eq=False)
class CopyForecast:
    """What was expected at one moment."""

    at_ms: int
    keys: Ints
    """Of the copies that have begun, sorted."""
    ends_s: Floats
    """When each of these will have arrived, by the middle of its range; inf never, NaN unknown."""
    ends: Mapping[str, ExpectedEnd] = field(default_factory=dict)
    """By operation, and of all that moves."""

    def eta_s(self, keys: Ints, now_ms: int) -> Floats:
        """Seconds until each of some replicas has arrived; NaN for one that was not there."""
        if not len(self.keys):
            return np.full(len(keys), np.nan)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        ends_s = np.where(self.keys[place] == keys, self.ends_s[place], np.nan)
        return np.maximum(ends_s - (now_ms - self.at_ms) / 1000, 0.0)


NOTHING: Final = CopyForecast(0, np.empty(0, np.int64), np.empty(0))


class Forecaster:
    """See the module's text. Snapshots come in their order."""

    def __init__(self, quantiles: Callable[[], Floats] = shipped_quantiles) -> None:
        """`quantiles` of a calibration, asked for each forecast."""
        self._quantiles = quantiles
        self._windows = RateWindows()
        self._since_ms: dict[str, int] = {}
        """Since when an operation is watched."""
        self._rates: Mapping[int, ThrottledRate] = {}
        self._rerated: set[int] = set()
        """Brokers whose throttle has another rate than at the last forecast."""
        self._last = NOTHING
        self._due_ms = 0.0

    def update(
        self,
        snapshot: Snapshot,
        keys: Ints,
        written: Floats,
        operations: Sequence[RunningOperation] = (),
    ) -> CopyForecast:
        """What is expected of the rows of a snapshot; what it was before, where none is due.

        `keys` and `written` as `RateWindows.update` takes them.
        """
        rerated = self._rerated_rows(snapshot)
        watched = self._windows.update(snapshot.replicas, keys, written, snapshot.taken_ms, rerated)
        if snapshot.taken_ms < self._due_ms:
            return self._last
        began_s = time.thread_time()
        self._last = self._forecast(snapshot, keys, watched, operations)
        took_s = time.thread_time() - began_s
        self._due_ms = snapshot.taken_ms + 1000 * max(EVERY_S, took_s / SHARE)
        return self._last

    def _rerated_rows(self, snapshot: Snapshot) -> Mask:
        """Rows of copies on whose way a throttle has another rate than in the snapshot before."""
        rates = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
        before, self._rates = self._rates, rates
        both = [
            broker for broker in rates.keys() & before.keys() if rates[broker] != before[broker]
        ]
        rows = snapshot.replicas
        if not both:
            return np.zeros(len(rows), np.bool_)
        self._rerated.update(both)
        sends = [
            broker
            for broker in both
            if rates[broker].leader_bytes_per_s != before[broker].leader_bytes_per_s
        ]
        receives = [
            broker
            for broker in both
            if rates[broker].follower_bytes_per_s != before[broker].follower_bytes_per_s
        ]
        found: Mask = np.isin(rows.leader, sends) | np.isin(rows.broker, receives)
        return found & ~rows.in_isr

    def _forecast(
        self,
        snapshot: Snapshot,
        keys: Ints,
        watched: RowRates,
        operations: Sequence[RunningOperation],
    ) -> CopyForecast:
        found = snapshot_copies(snapshot, operations, watched)
        if not len(found.copies):
            self._since_ms.clear()
            return CopyForecast(snapshot.taken_ms, NOTHING.keys, NOTHING.ends_s)
        quantiles = self._quantiles()
        expected = outlook(found.copies, found.rates)
        order = np.argsort(keys[found.rows])
        return CopyForecast(
            snapshot.taken_ms,
            keys[found.rows][order],
            _ends_s(expected, quantiles)[: len(found.rows)][order],
            with_deadlines(
                self._ends(found, expected, operations, quantiles, snapshot.taken_ms),
                operations,
                expected,
                found.members(operations),
                partial(snapshot_copies, snapshot, operations, watched),
                quantiles,
            ),
        )

    def _ends(
        self,
        found: SnapshotCopies,
        expected: Outlook,
        operations: Sequence[RunningOperation],
        quantiles: Floats,
        now_ms: int,
    ) -> dict[str, ExpectedEnd]:
        members = found.members(operations)
        for id, copies in members.items() if self._rerated else ():
            brokers = (found.copies.source[copies], found.copies.target[copies])
            if np.isin(brokers, list(self._rerated)).any():
                self._since_ms.pop(id, None)
        self._rerated.clear()
        self._since_ms = {id: self._since_ms.get(id, now_ms) for id in members}
        groups = [Group(rows, (now_ms - self._since_ms[id]) / 1000) for id, rows in members.items()]
        return dict(zip(members, expected_ends(expected, groups, quantiles, now_ms), strict=True))


def _ends_s(expected: Outlook, quantiles: Floats) -> Floats:
    """Of each copy the middle of its range; inf never, NaN where it is not known."""
    copies = expected.copies
    holds = held_by(expected.held_by_throttle, copies.waiting)
    writes = np.full(len(holds), SOME)
    made = ranges(COPY, expected.seconds, copies.age_s, holds, writes, quantiles)
    unknown = np.isin(np.array(expected.why), (HELD, *UNKNOWN))
    endless = np.where(unknown, np.nan, np.inf)
    return np.where(np.isfinite(expected.seconds), made.ends_s[:, 1], endless)
