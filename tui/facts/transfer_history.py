"""The course of the moves as the dashboard and its backend have seen it, and small plots of it.

Goals
    The whole of an operation can be looked back at, whatever the cluster's size.
Constraints
    Bounded: points are fewer the older they are, as `kshunt.backend.domain.replicas.history` says.
    A snapshot from before the newest point (the operator looks at the past) adds nothing.
Algorithm
    What the backend remembers from before the first snapshot, or from while the connection was
    lost, is taken without what only a whole snapshot tells.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.history import (
    POINTS_MOST,
    SeenRates,
    gaps,
    in_buckets,
    merged,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, HistoryPoint
from kshunt.tui.facts.cockpit.traffic import written_rows
from kshunt.tui.facts.snapshot_facts import Facts, rate_sum

THIN_MS: Final = 15_000
"""Points become fewer so often: all of them are looked at for that."""
STEADY_MS: Final = 4_000


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """What moves and producers cost each broker at one moment. Arrays have shape (brokers,)."""

    brokers: tuple[int, ...]
    """Ascending."""
    in_bytes_per_s: NDArray[np.float32]
    """What its added replicas fetch; NaN if unknown."""
    out_bytes_per_s: NDArray[np.float32]
    """What added replicas fetch from it; NaN if unknown."""
    produced_bytes_per_s: NDArray[np.float32]
    """What is produced to the partitions that it leads; NaN if unknown."""


@dataclass(frozen=True, slots=True)
class SeenTransfer:
    """One point of the course."""

    point: HistoryPoint
    load: Load | None = None
    """None where only the backend's history has this moment."""

    @property
    def at_ms(self) -> int:
        """By the backend's clock."""
        return self.point.at_ms


class SeenTransfers:
    """Remembers what was seen of one cluster."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._moments: list[SeenTransfer] = []
        self._thinned_ms = 0
        self._rates = SeenRates()

    def take(self, facts: Facts) -> None:
        """A snapshot came."""
        snapshot = facts.snapshot
        if snapshot.cluster_id != self._cluster_id:
            self._cluster_id, self._rates = snapshot.cluster_id, SeenRates()
            self._moments = []
        newest = self._moments[-1].at_ms if self._moments else -1
        if snapshot.taken_ms <= newest:
            return
        older = [point for point in snapshot.history if newest < point.at_ms < snapshot.taken_ms]
        self._moments += [SeenTransfer(point) for point in older]
        point = _point(facts)
        # While nothing moves, the backend says nothing of rates.
        if self._rates.changed(snapshot.throttles) and newest >= 0:
            point = replace(point, rates_changed=True)
        self._moments.append(SeenTransfer(point, load_of(facts)))
        if snapshot.taken_ms - self._thinned_ms >= THIN_MS:
            self._thinned_ms = snapshot.taken_ms
            kept = [_merged(members) for members in in_buckets(self._moments)]
            self._moments = kept[-POINTS_MOST:]

    def until(self, at_ms: int) -> tuple[SeenTransfer, ...]:
        """Every moment up to then, the oldest first."""
        return tuple(one for one in self._moments if one.at_ms <= at_ms)


def _merged(members: Sequence[SeenTransfer]) -> SeenTransfer:
    """The last of them, with what happened at any; the last load that was seen."""
    load = next((one.load for one in reversed(members) if one.load is not None), None)
    return replace(members[-1], point=merged([one.point for one in members]), load=load)


def _point(facts: Facts) -> HistoryPoint:
    """What the backend says of this moment; it says nothing while nothing moves."""
    history, taken_ms = facts.snapshot.history, facts.snapshot.taken_ms
    summary = facts.summary
    if history and history[-1].at_ms == taken_ms:
        said = history[-1]
        # An older backend says nothing of rates.
        unsaid = math.isnan(said.rate_bytes_per_s)
        return replace(said, rate_bytes_per_s=summary.rate_bytes_per_s) if unsaid else said
    return HistoryPoint(
        taken_ms,
        summary.remaining_bytes,
        summary.moving_replicas,
        summary.rate_bytes_per_s,
        None,
        int((facts.stuck & facts.arriving).sum()),
    )


def load_of(facts: Facts) -> Load:
    """Of every broker of a snapshot."""
    rows, ids = facts.rows, tuple(sorted(facts.snapshot.brokers))
    moving = np.flatnonzero(facts.arriving)
    rate = rows.fetched_bytes_per_s[moving]
    leads, written = written_rows(facts)
    return Load(
        ids,
        _by(rows.broker[moving], rate, ids),
        _by(rows.leader[moving], rate, ids),
        _by(rows.broker[leads], written, ids),
    )


def _by(
    broker: NDArray[np.int32], rate: NDArray[np.float32], ids: tuple[int, ...]
) -> NDArray[np.float32]:
    """The sum of the known rates of each broker; NaN where there are rates and none is known."""
    numbers = np.array(ids, np.int64)
    if not len(numbers):
        return np.zeros(0, np.float32)
    place = np.minimum(np.searchsorted(numbers, broker), len(numbers) - 1)
    mine = numbers[place] == broker
    known = mine & ~np.isnan(rate)
    total = np.bincount(place[known], rate[known], len(numbers)).astype(np.float64)
    silent = (np.bincount(place[mine], minlength=len(numbers)) > 0) & (
        np.bincount(place[known], minlength=len(numbers)) == 0
    )
    total[silent] = np.nan
    return total.astype(np.float32)


def within(moments: Sequence[SeenTransfer], span_s: float) -> Sequence[SeenTransfer]:
    """The moments of the last `span_s` seconds before the newest one."""
    if not moments:
        return moments
    first = moments[-1].at_ms - round(span_s * 1000)
    return [moment for moment in moments if moment.at_ms >= first]


def running_s(operations: Iterable[Operation], now_ms: int) -> float:
    """For how many seconds the oldest operation runs that moves something; 0 where none does."""
    begun = (one.started_ms for one in operations if not one.state.ended and one.partitions)
    return max(now_ms - min(begun, default=now_ms), 0) / 1000


def evenly(moments: Sequence[SeenTransfer], values: Sequence[float], count: int) -> list[float]:
    """The values at `count` equal steps of time; NaN where nothing is known for a while.

    Of several moments in a step, the mean; in a step without one, the last value before it.
    """
    if not moments or count < 1:
        return []
    times = [moment.at_ms for moment in moments]
    step_ms = max((times[-1] - times[0]) / count, 1.0)
    broken = frozenset(gaps(times))
    found, place = [], 0
    for step in range(count):
        end_ms = times[0] + (step + 1) * step_ms
        first = place
        while place < len(times) and (times[place] < end_ms or step == count - 1):
            place += 1
        known = [value for value in values[first:place] if not math.isnan(value)]
        if first == place:
            found.append(math.nan if place in broken else values[max(place - 1, 0)])
        else:
            found.append(math.fsum(known) / len(known) if known else math.nan)
    return found


def steady(moments: Sequence[SeenTransfer]) -> Sequence[SeenTransfer]:
    """Without the newest few: a plot moves as a whole, so it moves once in `STEADY_MS`."""
    if not moments:
        return moments
    last = moments[-1].at_ms // STEADY_MS * STEADY_MS
    past = [moment for moment in moments if moment.at_ms <= last]
    return past if len(past) > 1 else moments


def broker_history(moments: Sequence[SeenTransfer], broker: int) -> tuple[list[float], list[float]]:
    """What a broker received and sent at each moment; NaN where nobody knows."""
    return (
        _of_broker(moments, broker, lambda load: load.in_bytes_per_s),
        _of_broker(moments, broker, lambda load: load.out_bytes_per_s),
    )


def broker_produced(moments: Sequence[SeenTransfer], broker: int) -> list[float]:
    """What was produced to the partitions that a broker led; NaN where nobody knows."""
    return _of_broker(moments, broker, lambda load: load.produced_bytes_per_s)


def _of_broker(
    moments: Sequence[SeenTransfer], broker: int, of: Callable[[Load], NDArray[np.float32]]
) -> list[float]:
    """One broker's values of an array; NaN where nobody knows."""
    found = []
    for load in (moment.load for moment in moments):
        place = 0 if load is None else bisect_left(load.brokers, broker)
        known = load is not None and load.brokers[place : place + 1] == (broker,)
        found.append(float(of(load)[place]) if load is not None and known else math.nan)
    return found


def produced(moments: Sequence[SeenTransfer]) -> list[float]:
    """What was produced to all of them at each moment; NaN where nobody knows."""
    return [
        math.nan if moment.load is None else rate_sum(moment.load.produced_bytes_per_s)
        for moment in moments
    ]


def nothing_moved(moments: Sequence[SeenTransfer]) -> bool:
    """Whether nothing moved or waited at any of these moments; False if there is none."""
    return bool(moments) and all(moment.point.is_last for moment in moments)


def rates(moments: Sequence[SeenTransfer]) -> list[float]:
    """What was moved at each moment, in bytes a second; NaN where nobody knows."""
    return [moment.point.rate_bytes_per_s for moment in moments]


def remaining(moments: Sequence[SeenTransfer]) -> list[float]:
    """What was left at each moment, in bytes; NaN where nobody knows."""
    found = (float(moment.point.remaining_bytes) for moment in moments)
    return [math.nan if value == UNKNOWN else value for value in found]


def permitted(moments: Sequence[SeenTransfer]) -> list[float]:
    """What the throttles let through at each moment; NaN where they bound nothing."""
    found = (moment.point.permitted_bytes_per_s for moment in moments)
    return [math.nan if value is None else float(value) for value in found]
