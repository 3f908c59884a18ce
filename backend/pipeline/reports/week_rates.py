"""What `rates` say of a week: its hours put together, from their rows or from their roll-ups."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.pipeline.results.hour_figures import (
    Before,
    CopyOfOperation,
    HourFigures,
    IsrDrop,
    LastRows,
    figures_of,
)


@dataclass(slots=True)
class WeekRates:
    """All of it; hours come one after the other."""

    hours: set[int] = field(default_factory=set)
    """When the hours begin of which there are rows."""
    copied_by_hour: dict[int, float] = field(default_factory=dict)
    """Bytes that operations of kshunt copied."""
    others_by_hour: dict[int, float] = field(default_factory=dict)
    """Bytes of replicas that somebody else added."""
    behind_by_hour: dict[int, float] = field(default_factory=dict)
    """Bytes of replicas that nobody moved, and that came back into the ISR."""
    throttled_minutes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By day: minutes in which a sample was under a throttle."""
    idle_minutes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By day: of those, minutes in which nothing was copied."""
    drops: list[IsrDrop] = field(default_factory=list)
    """In the order of time."""
    written: Counter[str] = field(default_factory=Counter)
    """Bytes that were written to the leaders' logs, by topic."""
    copies: dict[tuple[str, int], CopyOfOperation] = field(default_factory=dict)
    """By operation and replica."""
    newest_ms: int | None = None
    _last: tuple[int, LastRows] | None = None
    """The hour whose rows came last, and its last rows."""

    def knows_before(self, hour_ms: int) -> bool:
        """Whether the rows of the hour before came last."""
        return self._last is not None and self._last[0] == hour_ms - HOUR_MS

    def add(self, hour_ms: int, table: Any, before: Before | None = None) -> None:
        """Take the rows of an hour.

        `before` gives the last ones of the hour before. None: they came last, or are not known.
        """
        if not len(table):
            return
        figures, last = figures_of(table, before or self._before(hour_ms))
        self._last = hour_ms, last
        self.take(hour_ms, figures)

    def _before(self, hour_ms: int) -> Before:
        """The rows that came last, if they are of the hour before."""
        last = self._last if self.knows_before(hour_ms) else None
        earlier = LastRows.nothing() if last is None else last[1]
        return lambda rids: earlier

    def take(self, hour_ms: int, hour: HourFigures) -> None:
        """Take what was made of the rows of an hour."""
        day_ms = hour_ms - hour_ms % DAY_MS
        self.hours.add(hour_ms)
        self.newest_ms = max(self.newest_ms or 0, hour.newest_ms)
        self.copied_by_hour[hour_ms] = hour.copied_bytes
        self.others_by_hour[hour_ms] = hour.others_bytes
        self.behind_by_hour[hour_ms] = hour.behind_bytes
        self.throttled_minutes[day_ms] += hour.throttled_minutes
        self.idle_minutes[day_ms] += hour.idle_minutes
        self.drops += hour.drops
        self.written.update(hour.written)
        for key, later in hour.copies.items():
            copy = self.copies.get(key)
            self.copies[key] = later if copy is None else copy.followed_by(later)
