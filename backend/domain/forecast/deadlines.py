"""The lowest throttle that is enough for a deadline: the model of copying, the other way round.

Goals
    One answer for a plan that has not begun and for an operation that runs.
Constraints
    The model is asked about ten times, so that an answer takes ten times as long as a forecast.
Algorithm
    Throttles have two digits. Of these a throttle is looked for that holds, and of which the next
    lower one does not: half of what lies between is dropped at each question.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S

CERTAINTY: Final = 0.9
"""A deadline holds where the end is in time with this probability: by the p90 of its range."""
HIGHEST_BYTES_PER_S: Final = 100_000_000_000
"""No network of a broker carries more: where this is not enough, no throttle is."""
_DIGITS: Final = 90
"""Numbers of two digits."""


def rate_step(number: int) -> int:
    """The rate of two digits in this place: 1000, 1100, ... 9900, 10000, 11000 bytes a second."""
    power, digits = divmod(number, _DIGITS)
    return (10 + digits) * RATE_MIN_BYTES_PER_S // 10 * int(10**power)


STEPS: Final = (len(str(HIGHEST_BYTES_PER_S)) - len(str(RATE_MIN_BYTES_PER_S))) * _DIGITS + 1


def late_end_s(end: ExpectedEnd) -> float | None:
    """When all copies have arrived with `CERTAINTY`, in seconds; None where one of them does not,
    or nobody knows."""
    return None if end.never or end.unknown or end.held else end.p90_s


def holds(end: ExpectedEnd, deadline_ms: int) -> bool:
    """Whether all of it is done by then, with `CERTAINTY`."""
    end_s = late_end_s(end)
    return end_s is not None and end.at_ms + 1000 * end_s <= deadline_ms


def lowest_rate(
    end_of: Callable[[int], ExpectedEnd], deadline_ms: int, above_bytes_per_s: int = 0
) -> int | None:
    """The lowest throttle that is enough; None where none is.

    The next lower step is not enough, or is not above what it has to be.

    Args:
        end_of: From a throttle to the end.
        deadline_ms: The moment, milliseconds since the epoch.
        above_bytes_per_s: A throttle that is not enough.
    """

    def enough(place: int) -> bool:
        return holds(end_of(rate_step(place)), deadline_ms)

    above = bisect_right(range(STEPS), above_bytes_per_s, key=rate_step)
    low, high = above - 1, STEPS - 1
    if above >= STEPS or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return rate_step(high)
