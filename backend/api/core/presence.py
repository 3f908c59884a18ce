"""The people who are connected to this backend, and the view of each.

Goals
    People who share a backend see each other.
Constraints
    It is this backend's own memory: nothing of it is written, or passed on to another backend. It
    is bounded, whatever is sent.
Algorithm
    A session says every few seconds that it is there. One that is silent for `SILENCE_S` is
    forgotten. Readers of events are told when somebody comes, goes, or looks at something else,
    at most once in `EVENT_S`; an event names all who are here, so nobody misses anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kshunt.backend.access.roles import Caller
from kshunt.backend.clock import Clock
from kshunt.backend.domain.operations.team import ConnectedSession
from kshunt.backend.errors import Conflict
from kshunt.backend.limits import LIMITS

SILENCE_S: Final = 45.0
EVENT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _SeenSession:
    present: ConnectedSession
    at_s: float
    """When it said so last, by the monotonic clock."""


class PresenceBoard:
    """See the module's text."""

    def __init__(
        self, clock: Clock, publish: Callable[[tuple[ConnectedSession, ...]], None]
    ) -> None:
        """`publish` gets the sessions of all who are here."""
        self._clock = clock
        self._publish = publish
        self._seen: dict[tuple[str, str], _SeenSession] = {}
        """By credential and session: nobody speaks for another one."""
        self._news = False
        self._announced_s = float("-inf")

    def listed(self) -> tuple[ConnectedSession, ...]:
        """Who is here; those who came first stand first."""
        since_s = self._clock.monotonic_s() - SILENCE_S
        return tuple(one.present for one in self._seen.values() if one.at_s > since_s)

    def seen(self, caller: Caller, session: str, who: str, screen: str, selected: str) -> None:
        """A session says that it is there.

        Raises:
            Conflict: the list of sessions is full, so this one is not remembered.
        """
        self._forget()
        key = caller.id, session
        before = self._seen.get(key)
        if before is None:
            self._check_room(caller)
        since_ms = self._clock.now_ms() if before is None else before.present.since_ms
        present = ConnectedSession(session, caller.name or who, screen, selected, since_ms)
        self._seen[key] = _SeenSession(present, self._clock.monotonic_s())
        self._news = self._news or before is None or before.present != present
        self.tell()

    def left(self, caller: Caller, session: str) -> None:
        """A session ends."""
        self._forget()
        if self._seen.pop((caller.id, session), None) is not None:
            self._news = True
        self.tell()

    def tell(self) -> None:
        """Publish what is new, unless that was done a moment ago; to be called every second."""
        self._forget()
        now_s = self._clock.monotonic_s()
        if self._news and now_s >= self._announced_s + EVENT_S:
            self._news, self._announced_s = False, now_s
            self._publish(self.listed())

    def _forget(self) -> None:
        since_s = self._clock.monotonic_s() - SILENCE_S
        silent = [key for key, one in self._seen.items() if one.at_s <= since_s]
        for key in silent:
            del self._seen[key]
        self._news = self._news or bool(silent)

    def _check_room(self, caller: Caller) -> None:
        # Where nobody shows a credential, all are one caller.
        own = sum(id == caller.id for id, _ in self._seen) if caller.name else 0
        if own >= LIMITS.present_per_caller or len(self._seen) >= LIMITS.present:
            raise Conflict(
                f"{len(self._seen)} sessions are listed, which is the maximum.",
                advice="Nothing else is affected.",
            )
