"""What happens in a backend, numbered, for readers that come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from kshunt.backend.api.http.answers import pieces_of
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import offload

Made = Callable[[], Any]
"""Makes what an event tells, of values that do not change."""


class LoggedEvent:
    """One event, whose document is made for the first reader and kept for the others."""

    def __init__(self, id: int, kind: str, made: Made, entries: int = 0) -> None:
        """`entries` is about how many the document has."""
        self.id = id
        self.kind = kind
        self._made: Made | None = made
        self._entries = entries
        self._data = b""
        self._making = threading.Lock()

    async def data(self) -> bytes:
        """The document's JSON; a large one is made on a thread."""
        return self._data or await offload(self._entries, self._written)

    def _written(self) -> bytes:
        with self._making:
            if self._made is not None:
                self._data = b"".join(pieces_of(self._made()))
                # What it was made of may be large.
                self._made = None
            return self._data


class EventLog:
    """The newest `Limits.events_kept` events.

    Of events that each say all of one thing only the newest is kept: a large operation changes
    often, and its document is large. Numbers start at the time of the start, in milliseconds.
    So the log notices a reader that resumes from the number of a backend that started earlier: it
    is smaller than any of this one's.
    """

    def __init__(self, now_ms: int) -> None:
        self._events: dict[str | int, LoggedEvent] = {}
        self._last_id = self._lost_id = now_ms
        self._arrived = asyncio.Event()

    @property
    def last_id(self) -> int:
        """Number of the newest event, or the one before the first."""
        return self._last_id

    def publish(self, kind: str, made: Made, *, of: str = "", entries: int = 0) -> None:
        """Add an event and wake the readers; it takes the place of the one `of` the same.

        `made` gives its document when somebody reads it, and may be called on a thread; `entries`
        is about how many the document has.
        """
        self._last_id += 1
        key = f"{kind} {of}" if of else self._last_id
        self._events.pop(key, None)
        self._events[key] = LoggedEvent(self._last_id, kind, made, entries)
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
            return (LoggedEvent(self._last_id, "reset", dict),)
        return tuple(event for event in self._events.values() if event.id > last_id)

    async def wait(self, timeout_s: float) -> bool:
        """True once something is published, False after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True
