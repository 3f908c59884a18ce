"""How the lags of some replicas went, as far as this dashboard has seen it.

Kept are the replicas that move, and those that somebody looked at; each for so many samples. The
thread that derives tables writes it, the event loop reads it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tui.tables.facts import Facts

REPLICAS_MOST: Final = 1_000
"""Moving replicas of which the course is kept; each costs some ten kilobytes at most."""
LOOKED_AT_MOST: Final = 64
SAMPLES_MOST: Final = 300
"""Five minutes at a sample a second."""


class Replica(NamedTuple):
    """What identifies a replica; equal to a key of the partitions view."""

    topic: str
    partition: int
    broker: int


class Sample(NamedTuple):
    """A replica's lag at one moment."""

    at_ms: int
    lag_bytes: int
    """UNKNOWN where nobody said."""


class LagHistory:
    """Lags of the recent past, bounded in replicas and in samples."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._courses: dict[tuple[str, int, int], deque[Sample]] = {}
        self._looked_at: dict[tuple[str, int, int], None] = {}
        """In the order in which they were looked at last."""
        self._cluster = ""
        self._newest_ms = 0

    def look_at(self, replica: tuple[str, int, int]) -> None:
        """Keep the course of this replica too, whether it moves or not."""
        with self._lock:
            self._looked_at.pop(replica, None)
            self._looked_at[replica] = None
            while len(self._looked_at) > LOOKED_AT_MOST:
                del self._looked_at[next(iter(self._looked_at))]

    def samples(self, replica: tuple[str, int, int]) -> tuple[Sample, ...]:
        """What is known of a replica, oldest first."""
        with self._lock:
            return tuple(self._courses.get(replica, ()))

    def take(self, facts: Facts) -> None:
        """Add what a snapshot says. Going back in time, what is later is forgotten."""
        snapshot = facts.snapshot
        with self._lock:
            if snapshot.cluster_id != self._cluster:
                self._courses.clear()
                self._cluster = snapshot.cluster_id
            if snapshot.taken_ms < self._newest_ms:
                self._forget_after(snapshot.taken_ms)
            self._newest_ms = snapshot.taken_ms
            for replica, lag in self._wanted(facts).items():
                course = self._courses.setdefault(replica, deque(maxlen=SAMPLES_MOST))
                if not course or course[-1].at_ms < snapshot.taken_ms:
                    course.append(Sample(snapshot.taken_ms, lag))

    def _forget_after(self, at_ms: int) -> None:
        for course in self._courses.values():
            while course and course[-1].at_ms > at_ms:
                course.pop()

    def _wanted(self, facts: Facts) -> dict[tuple[str, int, int], int]:
        """The lags to keep; the courses of all others are dropped."""
        rows, snapshot = facts.rows, facts.snapshot
        moving = facts.arriving.nonzero()[0]
        known = [Replica(*replica) for replica in self._looked_at]
        places = [*moving[:REPLICAS_MOST].tolist(), *_places(facts, known)]
        found: dict[tuple[str, int, int], int] = {
            Replica(
                snapshot.topic_of(place), int(rows.partition[place]), int(rows.broker[place])
            ): int(rows.lag_bytes[place])
            for place in places
        }
        for gone in self._courses.keys() - found.keys():
            del self._courses[gone]
        return found


def _places(facts: Facts, replicas: list[Replica]) -> list[int]:
    return [
        place
        for replica in replicas
        for place in facts.rows_of(replica.topic, replica.partition)
        if facts.rows.broker[place] == replica.broker
    ]
