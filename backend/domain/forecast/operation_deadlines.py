"""Whether operations that run keep their deadlines, and the throttle that would do.

Goals
    The answer fits the forecast that is shown: a deadline holds where the late end of its range is
    in time.
Constraints
    A throttle is looked for only where a deadline does not hold. Rates are only raised, and only
    those of brokers that the operation's copies pass and that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kshunt.backend.domain.forecast.copies import BrokerRates
from kshunt.backend.domain.forecast.deadlines import holds, lowest_rate
from kshunt.backend.domain.forecast.expected_ends import Group, expected_ends
from kshunt.backend.domain.forecast.fair_shares import Floats, Ints
from kshunt.backend.domain.forecast.outlook import Outlook, outlook
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation, SnapshotCopies
from kshunt.backend.domain.forecast.what_if import moved_end
from kshunt.backend.domain.replicas.expected_end_values import DeadlineCheck, ExpectedEnd
from kshunt.backend.domain.throttles.configs import ThrottledRate

AtRates = Callable[[Mapping[int, ThrottledRate]], SnapshotCopies]
"""From rates to the copies of the same moment at these rates."""


def with_deadlines(
    ends: Mapping[str, ExpectedEnd],
    operations: Sequence[RunningOperation],
    present: Outlook,
    members: Mapping[str, Ints],
    at_rates: AtRates,
    quantiles: Floats,
) -> dict[str, ExpectedEnd]:
    """The same ends, with whether deadlines hold.

    Args:
        ends: By operation.
        operations: Those that run.
        present: What is expected of their copies.
        members: Copies by operation id.
        at_rates: The copies at other rates.
        quantiles: As in `ranges`.
    """
    checked = dict(ends)
    for one in operations:
        if one.deadline_ms is None or one.id not in ends:
            continue
        end = ends[one.id]
        search = _Search(present, members[one.id], end, at_rates, quantiles)
        checked[one.id] = replace(end, deadline=_check(end, one.deadline_ms, search))
    return checked


def _check(end: ExpectedEnd, deadline_ms: int, search: _Search) -> DeadlineCheck:
    if end.unknown or end.held:
        return DeadlineCheck(deadline_ms, None)
    if holds(end, deadline_ms):
        return DeadlineCheck(deadline_ms, True)
    return DeadlineCheck(deadline_ms, False, search.rate(deadline_ms))


class _Search:
    """The lowest throttle that keeps an operation's deadline."""

    def __init__(
        self,
        present: Outlook,
        rows: Ints,
        end: ExpectedEnd,
        at_rates: AtRates,
        quantiles: Floats,
    ) -> None:
        self._present, self._end = present, end
        self._at_rates, self._quantiles = at_rates, quantiles
        self._group = Group(rows, end.watched_s)
        copies = present.copies
        brokers = np.concatenate([copies.source[rows], copies.target[rows]])
        self._brokers = set(brokers.tolist())

    def rate(self, deadline_ms: int) -> int | None:
        """The throttle; None where none is enough, or no throttle holds the copies."""
        rates = _rates(self._present.rates, self._brokers)
        sides = [side for rate in rates.values() for side in _sides(rate) if side is not None]
        if not sides:
            return None
        now = self._expected(self._present)

        def end_at(throttle: int) -> ExpectedEnd:
            raised = {id: _raised(rate, throttle) for id, rate in rates.items()}
            other = self._at_rates(raised)
            then = outlook(other.copies, self._present.rates, other.rates)
            return moved_end(self._expected(then), now, self._end)

        return lowest_rate(end_at, deadline_ms, min(sides))

    def _expected(self, found: Outlook) -> ExpectedEnd:
        return expected_ends(found, [self._group], self._quantiles, self._end.at_ms)[0]


def _rates(found: BrokerRates, brokers: set[int]) -> dict[int, ThrottledRate]:
    """The rates of these brokers, of those that have one."""
    columns = found.brokers, found.leader_bytes_per_s, found.follower_bytes_per_s
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {
        int(id): ThrottledRate(_or_none(leader), _or_none(follower))
        for id, leader, follower in rows
        if id in brokers
    }


def _or_none(rate: float) -> int | None:
    return int(rate) if np.isfinite(rate) else None


def _sides(rate: ThrottledRate) -> tuple[int | None, int | None]:
    return rate.leader_bytes_per_s, rate.follower_bytes_per_s


def _raised(rate: ThrottledRate, throttle: int) -> ThrottledRate:
    """Both sides that have a rate, at least as high as this."""
    return ThrottledRate(*(None if side is None else max(side, throttle) for side in _sides(rate)))
