"""The other way round: which throttle lets a plan end by a time.

Algorithm
    1. Rehearse it without a throttle. Who is too late then is too late at any rate: this is the
       earliest end.
    2. No throttle is enough that cannot carry what the busiest broker has to receive or send in
       the time; the most that any broker was seen to carry without one is as good as none.
    3. Halve what lies between, by ratios, until it is within a twentieth; take the upper end, and
       round it up to two digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.rehearsal import Deadline, Rehearsal
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.impact import impact
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.run import rehearse

CLOSE: Final = 1.05

Run: TypeAlias = Callable[[int | None], Rehearsal]
"""From a throttle, in bytes a second, to how the moves go with it."""


def throttle_for(
    picture: Picture,
    targets: Mapping[TopicPartition, Sequence[int]],
    deadline_s: float,
    *,
    seed: int = 0,
    run: Run | None = None,
) -> Deadline:
    """The least throttle, to two digits, with which a plan ends in so many seconds.

    Args:
        picture: The cluster.
        targets: The replicas that partitions are to have, preferred leader first.
        deadline_s: The time that there is.
        seed: Of what the twin decides by chance.
        run: Rehearses these moves in that cluster, where somebody has done so at some throttles
            already; None: `rehearse`.

    Raises:
        BadInput: the time is over already, or the plan cannot be rehearsed.
    """
    if not 0 < deadline_s < math.inf:
        raise BadInput("The deadline is already over.", advice="Name a later one.")
    needs = {
        one.broker: (one.received_bytes / deadline_s, one.sent_bytes / deadline_s)
        for one in impact(picture.situation, targets).brokers
        if one.received_bytes or one.sent_bytes
    }
    # Rates that are rounded alike are rehearsed once.
    run = run or cache(partial(rehearse, picture, targets, seed=seed))
    free = run(None)
    if not _in_time(free, deadline_s):
        return Deadline(deadline_s, None, free, needs)
    low = max((max(pair) for pair in needs.values()), default=0.0)
    low = max(low, float(RATE_MIN_BYTES_PER_S))
    carried = [*free.peak_received_bytes_per_s().values(), *free.peak_sent_bytes_per_s().values()]
    # A look may fall between bursts, so the most that was seen may be less than the least need.
    high = max(2 * low, 2 * max(carried))
    best = run(rounded(high))
    if not _in_time(best, deadline_s):
        return Deadline(deadline_s, None, free, needs)
    while high / low > CLOSE:
        middle = math.sqrt(low * high)
        found = run(rounded(middle))
        if _in_time(found, deadline_s):
            high, best = middle, found
        else:
            low = middle
    return Deadline(deadline_s, best.throttle_bytes_per_s, best, needs)


def rounded(rate_bytes_per_s: float) -> int:
    """Up to two digits: 12,345,678 becomes 13,000,000."""
    step = 10.0 ** max(math.floor(math.log10(rate_bytes_per_s)) - 1, 0)
    return int(math.ceil(rate_bytes_per_s / step) * step)


def _in_time(rehearsal: Rehearsal, deadline_s: float) -> bool:
    return rehearsal.finish_s is not None and rehearsal.finish_s <= deadline_s
