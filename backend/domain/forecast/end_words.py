"""When moves will be done, in words: `12:16 (12:14-12:20)`, in the local time zone.

Pure but for the time zone, and without arrays: a one-shot tool calls it.
"""

from __future__ import annotations

import time
from typing import Final

from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd, Shortage
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS
from kshunt.backend.domain.text.formatting import (
    NEVER,
    UNKNOWN,
    duration_text,
    many,
    moment_text,
    rate_text,
)

HELD: Final = "held"
"""A pause holds what moves: nobody knows when it continues."""
MEASURING: Final = "measuring"
WEEK_MS: Final = 6 * 86_400_000
WIDE: Final = 99
_CAUSES: Final = {cause.key: text.short for cause, text in CAUSE_TEXTS.items()}


def clock_text(at_ms: int, now_ms: int) -> str:
    """The time of day here, with the day where it is another one: `12:16`, `Tue 12:16`."""
    at, now = time.localtime(at_ms / 1000), time.localtime(now_ms / 1000)
    hours = time.strftime("%H:%M", at)
    if at[:3] == now[:3]:
        return hours
    near = 0 < at_ms - now_ms < WEEK_MS
    return f"{time.strftime('%a' if near else '%d %b', at)} {hours}"


def when_text(end: ExpectedEnd, now_ms: int, width: int = WIDE) -> str:
    """`12:16 (12:14-12:20)`; the middle alone where there is no room for more, or no need."""
    moments_ms = _range_ms(end, now_ms)
    if moments_ms is None:
        return UNKNOWN
    low, middle, high = (clock_text(at_ms, now_ms) for at_ms in moments_ms)
    if low == high:
        return middle
    # A day is said once, where all of it is within that.
    days = {text.rpartition(" ")[0] for text in (low, middle, high)}
    if len(days) == 1:
        low, high = (text.rpartition(" ")[2] for text in (low, high))
    full = f"{middle} ({low}-{high})"
    return full if len(full) <= width else middle


def dated_text(end: ExpectedEnd, now_ms: int) -> str | None:
    """The same in full and in UTC, for readers in an unknown time zone; None where it is unknown.

    `2026-11-24 12:16:00 UTC (2026-11-24 12:14:00 UTC to 2026-11-24 12:20:00 UTC)`.
    """
    moments_ms = _range_ms(end, now_ms)
    if moments_ms is None:
        return None
    low, middle, high = map(moment_text, moments_ms)
    return f"{middle} ({low} to {high})"


def _range_ms(end: ExpectedEnd, now_ms: int) -> tuple[int, int, int] | None:
    """When the low, the middle and the high end are, none of them past; None where unknown."""
    if end.p10_s is None or end.p50_s is None or end.p90_s is None:
        return None
    low, middle, high = (
        max(moment_ms(end, seconds), now_ms) for seconds in (end.p10_s, end.p50_s, end.p90_s)
    )
    return low, middle, high


def moment_ms(end: ExpectedEnd, seconds: float) -> int:
    """When that is, milliseconds since the epoch."""
    return end.at_ms + round(seconds * 1000)


def end_text(end: ExpectedEnd | None, now_ms: int, width: int = WIDE) -> str:
    """When it is done, or why nobody can say: for a column, or after a label."""
    if end is None or not end.copies:
        return UNKNOWN
    if end.held == end.copies:
        return HELD
    if end.p50_s is not None:
        return when_text(end, now_ms, width)
    return NEVER if end.never else measuring_text(end, now_ms, width)


def measuring_text(end: ExpectedEnd, now_ms: int, width: int = WIDE) -> str:
    """`measuring 12s`: nothing is known yet, and since when it is looked."""
    passed_s = end.watched_s + max(now_ms - end.at_ms, 0) / 1000
    full = f"{MEASURING} {duration_text(passed_s)}"
    return full if len(full) <= width else MEASURING[:width]


def never_text(end: ExpectedEnd) -> str:
    """What keeps it from ever ending, and the rate that would do; empty where nothing is known."""
    return shortage_text(end.shortage) if end.shortage else _CAUSES.get(end.why, end.why)


def shortage_text(shortage: Shortage) -> str:
    """`leader throttle of broker 7 is too low, needs 55 MB/s`."""
    if shortage.needs_bytes_per_s is None:
        return f"{shortage.resource} is slower than the producers"
    return f"{shortage.resource} is too low, needs {rate_text(shortage.needs_bytes_per_s)}"


def apart_text(end: ExpectedEnd) -> str:
    """Who is not in when it is done: `3 never, 2 held, 1 not known yet`; empty where all are."""
    if end.p50_s is None:
        return ""
    counts = ((end.never, NEVER), (end.held, HELD), (end.unknown, "not known yet"))
    return ", ".join(f"{count:,} {words}" for count, words in counts if count)


def bottleneck_texts(end: ExpectedEnd, now_ms: int) -> list[str]:
    """What it waits for until then: `leader throttle of broker 7 until 12:09`."""
    last = len(end.bottlenecks) - 1
    return [
        str(one.resource)
        if place == last or one.until_s is None
        else f"{one.resource} until {clock_text(moment_ms(end, one.until_s), now_ms)}"
        for place, one in enumerate(end.bottlenecks)
    ]


def deadline_text(end: ExpectedEnd, now_ms: int) -> str:
    """`deadline 06:00 holds`, `misses its deadline 06:00, needs 55 MB/s`; empty without one."""
    found = end.deadline
    if found is None:
        return ""
    by = clock_text(found.at_ms, now_ms)
    if found.holds is None:
        return f"deadline {by}"
    if found.holds:
        return f"deadline {by} holds"
    if found.needs_bytes_per_s is None:
        return f"misses its deadline {by} at any throttle"
    return f"misses its deadline {by}, needs {rate_text(found.needs_bytes_per_s)}"


def full_text(end: ExpectedEnd | None, now_ms: int) -> str:
    """One line for a tool: when, who is not in it, and what it waits for."""
    if end is None:
        return UNKNOWN
    when = end_text(end, now_ms)
    if end.p50_s is not None and end.unknown:
        known = end.copies - end.never - end.held - end.unknown
        when = f"{when} for {known:,} of {many(end.copies, 'replica')}"
    said = [", ".join(filter(None, (when, apart_text(end))))]
    if waits := bottleneck_texts(end, now_ms):
        said.append(f"waits for {', then '.join(waits)}")
    if end.never and (why := never_text(end)):
        said.append(why)
    if deadline := deadline_text(end, now_ms):
        said.append(deadline)
    if end.waiting:
        said.append(f"{many(end.waiting, 'replica')} not begun")
    return "; ".join(said)
