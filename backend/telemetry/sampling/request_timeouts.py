"""How long brokers are given to answer, and how long they are then left alone.

The sampler owns it. To ask a slow broker again does not help it. A request that is given up while
its answer is on the way keeps a busy broker busy. So does a sweep that begins as the last one ends.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Key: TypeAlias = tuple[str, int]
"""What is asked, and which broker (-1: the cluster)."""

MOST: Final = 8.0
"""A time-out is at most this many times the first one."""

RESTS: Final = 4.0
"""A broker that took a while for everything it has is asked for it again after this many times that
while."""


class RequestTimeouts:
    """Remembers how long each kind of request took, by broker."""

    def __init__(self, first_s: float) -> None:
        """`first_s`: the time-out of who was not asked yet, or answers in time."""
        self._first_s = first_s
        self._took_s: dict[Key, float] = {}

    def note(self, key: Key, took_s: float) -> None:
        """A request was answered after `took_s` seconds, or given up."""
        self._took_s[key] = took_s

    def timeout_s(self, key: Key) -> float:
        """The first time-out, doubled until it is half as long again as the last turn took."""
        took_s, doublings = self._took_s.get(key, 0.0), 1.0
        while doublings < MOST and doublings * self._first_s < 1.5 * took_s:
            doublings *= 2.0
        return doublings * self._first_s

    def rest_s(self, key: Key, usual_s: float) -> float:
        """How long a broker is left alone between two sweeps, where it took its time for one."""
        return max(usual_s, RESTS * self._took_s.get(key, 0.0))
