"""Deadlines as an operator types them: a time of day, a date and a time, or how long from here."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.errors import BadInput

HINT: Final = "a time (06:00), a date and a time (2026-11-23 06:00), or a duration (90m, 8h, 1h30m)"
DAYS_MOST: Final = 366

_CLOCK: Final = re.compile(r"(?:(\d{4}-\d{2}-\d{2})[T ]\s*)?(\d{1,2}):(\d{2})", re.ASCII)
_PART: Final = r"(?:(\d+(?:\.\d+)?)\s*{})?\s*"
_SPAN: Final = re.compile(
    "".join(_PART.format(unit) for unit in ("d", "h", "m(?:in)?", "s")), re.ASCII
)
_UNITS_S: Final = (86_400, 3_600, 60, 1)
_TEXT_MOST: Final = 40


def deadline_s(text: str, now_ms: int, tz: tzinfo | None) -> float:
    """Seconds from now until the deadline in the text; more than 0.

    A time of day is the next one that comes, today or tomorrow. Where clocks are put back and it
    comes twice, it is the first one that is still ahead.

    Args:
        text: `06:00`, `2026-11-23 06:00`, `90m`, `8h`, `1h30m`, `1.5h`.
        now_ms: milliseconds since the epoch.
        tz: where the clock hangs; None for the time zone of this machine.

    Raises:
        BadInput: it is no deadline, it is over, it is more than a year ahead, or the clocks of
            that place are put forward past it.
    """
    typed = text.strip()
    if len(typed) > _TEXT_MOST:
        raise _unreadable(f"{typed[:_TEXT_MOST]}...")
    clock = _CLOCK.fullmatch(typed)
    found_s = _span_s(typed) if clock is None else _until_s(clock, now_ms / 1000, tz)
    if found_s <= 0:
        raise BadInput(f"'{typed}' is already over.", advice=f"Type {HINT}.")
    if found_s > DAYS_MOST * _UNITS_S[0]:
        ahead = duration_text(found_s)
        raise BadInput(
            f"'{typed}' is {ahead} from now.", advice=f"The maximum is {DAYS_MOST} days."
        )
    return found_s


def deadline_ms(text: str, now_ms: int, tz: tzinfo | None) -> int:
    """The same as a moment, milliseconds since the epoch.

    Raises:
        BadInput: as `deadline_s` says.
    """
    return now_ms + round(1000 * deadline_s(text, now_ms, tz))


def _unreadable(typed: str) -> BadInput:
    return BadInput(f"'{typed}' is not a deadline.", advice=f"Type {HINT}.")


def _span_s(typed: str) -> float:
    """How long it is.

    Raises:
        BadInput: it is no length of time.
    """
    found = _SPAN.fullmatch(typed.lower())
    parts = found.groups() if found is not None else ()
    if not any(parts):
        raise _unreadable(typed)
    return sum(float(part or 0) * unit for part, unit in zip(parts, _UNITS_S, strict=True))


def _until_s(clock: re.Match[str], now_s: float, tz: tzinfo | None) -> float:
    """Seconds until it strikes so much.

    Raises:
        BadInput: there is no such time, or not on that day.
    """
    day, hour, minute = clock.groups()
    today = datetime.fromtimestamp(now_s, tz).date()
    try:
        at = time(int(hour), int(minute))
        days = [date.fromisoformat(day)] if day else [today, today + timedelta(days=1)]
    except ValueError:
        raise _unreadable(clock.group()) from None
    ahead = days[0] - today
    if abs(ahead.days) > DAYS_MOST + 1:
        # Years that long past or far ahead have no seconds everywhere.
        return ahead.total_seconds()
    struck_s = [s for one in days for s in _struck_s(one, at, tz)]
    if not struck_s:
        raise BadInput(
            f"The clocks skip {at:%H:%M} on {days[0]}.",
            advice="Type a time that exists on that day.",
        )
    ahead_s = [s - now_s for s in struck_s if s > now_s]
    return ahead_s[0] if ahead_s else struck_s[-1] - now_s


def _struck_s(day: date, at: time, tz: tzinfo | None) -> list[float]:
    """When clocks show it on that day, as seconds since the epoch: once, twice, or never."""
    found = []
    for fold in (0, 1):
        there = datetime.combine(day, at, tz).replace(fold=fold)
        struck_s = there.timestamp()
        shown = datetime.fromtimestamp(struck_s, tz)
        if (shown.date(), shown.hour, shown.minute) == (day, at.hour, at.minute):
            found.append(struck_s)
    return sorted(set(found))
