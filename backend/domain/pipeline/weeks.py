"""Weeks as ISO 8601 counts them: from Monday 00:00 UTC to the next one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

WEEKS: Final = "2026-W47, 2026-11-17 (the week of that day), last or this"
"""What `week_of` reads."""
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
_YEARS: Final = range(1971, 9999)
_WEEK: Final = re.compile(r"(\d{4})-W(\d{2})", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """One week."""

    year: int
    """That of its Thursday."""
    number: int

    def __str__(self) -> str:
        return f"{self.year}-W{self.number:02d}"

    @property
    def monday(self) -> date:
        """Its first day."""
        return date.fromisocalendar(self.year, self.number, 1)

    @property
    def from_ms(self) -> int:
        """When it begins, milliseconds since the epoch."""
        return (self.monday - _EPOCH).days * _DAY_MS

    @property
    def to_ms(self) -> int:
        """When the next one begins."""
        return self.from_ms + 7 * _DAY_MS

    @property
    def days_ms(self) -> tuple[int, ...]:
        """When each of its days begins."""
        return tuple(range(self.from_ms, self.to_ms, _DAY_MS))

    def has(self, at_ms: float) -> bool:
        """Whether a moment is within it."""
        return self.from_ms <= at_ms < self.to_ms

    @property
    def before(self) -> Week:
        """The week before it."""
        return _of(self.monday - timedelta(days=7))

    @classmethod
    def at(cls, at_ms: int) -> Week:
        """The week of a moment."""
        return _of(datetime.fromtimestamp(at_ms // 1000, UTC).date())


def week_of(text: str, now_ms: int) -> Week:
    """A week as a person writes it; one that has begun.

    Raises:
        ValueError: the text is not a week, or that week has not begun.
    """
    this = Week.at(now_ms)
    if text in ("last", "this"):
        return this if text == "this" else this.before
    try:
        found = _read(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a week: {WEEKS}") from None
    if found > this:
        raise ValueError(f"week {found} has not begun")
    return found


def _read(text: str) -> Week:
    if (match := _WEEK.fullmatch(text)) is not None:
        found = Week(int(match[1]), int(match[2]))
    elif _DAY.fullmatch(text):
        found = _of(date.fromisoformat(text))
    else:
        raise ValueError(text)
    if found.year not in _YEARS:
        raise ValueError(text)
    # A year has 52 weeks or 53.
    date.fromisocalendar(found.year, found.number, 1)
    return found


def _of(day: date) -> Week:
    year, number, _ = day.isocalendar()
    return Week(year, number)


def day_text(at_ms: int) -> str:
    """The day of a moment: `Tue 2026-11-17`."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{DAYS[at.weekday()]} {at:%Y-%m-%d}"
