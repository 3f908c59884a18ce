"""How far moves have been seen to be, so that no bar falls.

Goals
    A bar never shows more than is copied, and never falls.
Constraints
    A partition whose turn has come is for a moment neither among those that wait nor among those
    that move. What is written to topics adds to what is left.
Algorithm
    The whole is the largest of the last `WINDOW_MS`. The share is the highest so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

WINDOW_MS: Final = 10_000


class Reached:
    """Remembers the share of each operation, and of everything. For one thread."""

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}
        self._wholes: dict[str, deque[tuple[int, int]]] = {}
        """When, and how many bytes."""

    def take(self, id: str, at_ms: int, done_bytes: int, whole_bytes: int) -> float:
        """The highest share so far, given what is copied of how much at a moment."""
        wholes = self._wholes.setdefault(id, deque())
        while wholes and not at_ms - WINDOW_MS < wholes[0][0] <= at_ms:
            wholes.popleft()
        wholes.append((at_ms, whole_bytes))
        whole = max(most for _, most in wholes)
        share = done_bytes / whole if whole > 0 else 0.0
        self._shares[id] = max(self._shares.get(id, 0.0), share)
        return self._shares[id]

    def known(self, id: str) -> float:
        """The highest share so far."""
        return self._shares.get(id, 0.0)

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others."""
        for id in self._shares.keys() - set(ids):
            del self._shares[id]
            del self._wholes[id]
