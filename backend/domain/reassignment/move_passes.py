"""In which order waiting moves find places: fair to all brokers.

A pass takes at most one move from each broker that would copy. So the first broker in the order
does not take every place. The planner of Cruise Control's executor does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Places(Protocol):
    """What moves take while they are in flight."""

    def room(self, brokers: frozenset[int]) -> bool:
        """Whether a move that makes these brokers copy finds a place."""
        ...

    def take(self, brokers: frozenset[int]) -> None:
        """One has begun."""
        ...


def in_passes(
    waiting: Iterable[tuple[T, frozenset[int]]], places: Places
) -> Iterator[tuple[T, bool]]:
    """Each waiting move once, with whether it found a place; `waiting` has the brokers of each.

    The order is a preference: if a broker of a move is full, a later move may begin first.
    """
    left = list(waiting)
    while left:
        served: set[int] = set()
        passed_over = []
        for move, brokers in left:
            if brokers & served:
                passed_over.append((move, brokers))
            elif places.room(brokers):
                places.take(brokers)
                served |= brokers
                yield move, True
            else:
                yield move, False
        left = passed_over
