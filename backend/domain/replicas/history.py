"""The history of moves, coarser with age, and where it has gaps.

Goals
    The history covers a whole operation, of days too, in bounded memory.
Constraints
    A backend, its clients and recordings thin their histories alike, though each of them has seen
    another part: only the points and the newest moment decide what stays.
Algorithm
    Time is cut into buckets of fixed places, longer ones the older they are, and each kind divides
    the next. Of a bucket that is old enough as a whole, the last point stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, Protocol, TypeVar

from kshunt.backend.domain.replicas.snapshot import HistoryPoint
from kshunt.backend.domain.throttles.configs import ThrottledRate, Throttles

TIERS: Final = (
    (14 * 86_400_000, 0),
    (86_400_000, 1_800_000),
    (3 * 3_600_000, 120_000),
    (900_000, 15_000),
    (60_000, 1_000),
)
"""From which age on, in milliseconds, how long a bucket is; 0: what is older is forgotten."""
POINTS_MOST: Final = 4_000
GAP_LEAST_MS: Final = 15_000
"""Points come once a second, or every few seconds from a large cluster."""
GAP_BUCKETS: Final = 3


class SeenRates:
    """The rates of each broker as they were read last."""

    def __init__(self) -> None:
        self._rates: dict[int, ThrottledRate] = {}

    def changed(self, throttles: Throttles) -> bool:
        """Whether a broker has other rates than when they were read before."""
        rates = {broker: one.rate for broker, one in throttles.rates.items()}
        changed = any(self._rates.get(id, rate) != rate for id, rate in rates.items())
        self._rates |= rates
        return changed


class Moment(Protocol):
    """A point in time with what was true then."""

    @property
    def at_ms(self) -> int:
        """Milliseconds since the epoch."""


M = TypeVar("M", bound=Moment)


def _bucket_ms(age_ms: int) -> int | None:
    """How long a bucket of that age is; None: each point stays."""
    return next((bucket_ms for least_ms, bucket_ms in TIERS if age_ms >= least_ms), None)


def _place(at_ms: int, newest_ms: int) -> tuple[int, int]:
    """The bucket of a moment: its length and its number; the moment itself where it stays."""
    for least_ms, bucket_ms in TIERS[1:]:
        if newest_ms - (at_ms // bucket_ms + 1) * bucket_ms >= least_ms:
            return bucket_ms, at_ms // bucket_ms
    return 0, at_ms


def in_buckets(moments: Sequence[M]) -> Iterator[list[M]]:
    """Moments that stay as one, the oldest first; without those that are forgotten."""
    if not moments:
        return
    newest_ms = moments[-1].at_ms
    kept = [one for one in moments if newest_ms - one.at_ms < TIERS[0][0]]
    for _, members in groupby(kept, lambda one: _place(one.at_ms, newest_ms)):
        yield list(members)


def thinned(points: Sequence[HistoryPoint]) -> tuple[HistoryPoint, ...]:
    """The history as it is kept. A change of rates is not lost with its point."""
    if not points or points[-1].at_ms - points[0].at_ms <= TIERS[-1][0]:
        return tuple(points)[-POINTS_MOST:]
    return tuple([merged(members) for members in in_buckets(points)][-POINTS_MOST:])


def merged(points: Sequence[HistoryPoint]) -> HistoryPoint:
    """The last of some points, with what happened at any of them."""
    last = points[-1]
    if last.rates_changed or not any(point.rates_changed for point in points):
        return last
    return replace(last, rates_changed=True)


def gaps(times_ms: Sequence[int]) -> list[int]:
    """Places of the moments before which nothing is known for a while."""
    found = []
    for place in range(1, len(times_ms)):
        passed_ms = times_ms[place] - times_ms[place - 1]
        if passed_ms < GAP_LEAST_MS:
            continue
        bucket_ms = _bucket_ms(times_ms[-1] - times_ms[place - 1]) or 0
        if passed_ms >= max(GAP_LEAST_MS, GAP_BUCKETS * bucket_ms):
            found.append(place)
    return found
