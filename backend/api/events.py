"""What happens in a backend, numbered, for readers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.settings import LIMITS


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event."""

    id: int
    kind: str
    document: Mapping[str, Any]


class EventLog:
    """The newest `Limits.events_kept` events.

    Of events that each say all of one thing only the newest is kept: a large operation changes
    often, and its document is large. Numbers start at the time of the start, in milliseconds, so
    that a reader that resumes from another backend's number is found out: it is smaller than any
    of this one's.
    """

    def __init__(self, now_ms: int) -> None:
        self._events: dict[str | int, LoggedEvent] = {}
        self._last_id = self._lost_id = now_ms
        self._arrived = asyncio.Event()

    @property
    def last_id(self) -> int:
        """Number of the newest event, or the one before the first."""
        return self._last_id

    def publish(self, kind: str, document: Mapping[str, Any], of: str = "") -> None:
        """Add an event and wake the readers; it takes the place of the one `of` the same."""
        self._last_id += 1
        key = f"{kind} {of}" if of else self._last_id
        self._events.pop(key, None)
        self._events[key] = LoggedEvent(self._last_id, kind, document)
        if len(self._events) > LIMITS.events_kept:
            self._lost_id = self._events.pop(next(iter(self._events))).id
        self._arrived.set()
        self._arrived = asyncio.Event()

    def after(self, last_id: int) -> tuple[LoggedEvent, ...]:
        """The events that a reader who has seen `last_id` lacks.

        If some of them are no longer kept, or `last_id` is from another backend, the first one is
        a `reset`: the reader must read the lists anew.
        """
        if not self._lost_id <= last_id <= self._last_id:
            return (LoggedEvent(self._last_id, "reset", {}),)
        return tuple(event for event in self._events.values() if event.id > last_id)

    async def wait(self, timeout_s: float) -> bool:
        """True once something is published, False after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True
