"""Whose turn it is to use a planner.

Goals
    Somebody who asks once waits for what is at work, and for at most one question of each of the
    others, however many those have asked. Nobody alone can fill the queue.
Constraints
    A planner takes seconds to minutes, and few work at the same time.
Algorithm
    Each caller has a queue of its own, first come first served. The callers take turns: one that
    was served goes behind the others. A caller who has `by_caller` questions in the queues or at
    work is refused, and everybody is where there are `in_all`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kshunt.backend.errors import Conflict

UNTOUCHED: Final = "The cluster is unchanged."
ANYBODY: Final = ""
"""The caller where nobody is told apart; only the bound of all counts."""


class PlannerQueue:
    """See the module's text. Used on one event loop."""

    def __init__(self, at_once: int, by_caller: int, in_all: int) -> None:
        self._free = at_once
        self._by_caller = by_caller
        self._in_all = in_all
        self._asked = Counter[str]()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, caller: str = ANYBODY) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the end of the block.

        Raises:
            Conflict: this caller has asked too much already, or all together have.
        """
        self._refuse(caller)
        self._asked[caller] += 1
        try:
            await self._wait(caller)
            try:
                yield
            finally:
                self._free += 1
                self._serve()
        finally:
            self._asked[caller] -= 1
            if not self._asked[caller]:
                del self._asked[caller]

    def _refuse(self, caller: str) -> None:
        if caller != ANYBODY and self._asked[caller] >= self._by_caller:
            raise Conflict(
                f"{self._by_caller} of your plans and rehearsals are already waiting.",
                advice=f"{UNTOUCHED} Ask again when one of them is done.",
            )
        if self._asked.total() >= self._in_all:
            raise Conflict(
                f"{self._asked.total()} plans and rehearsals are already waiting.",
                advice=f"{UNTOUCHED} Ask again when they are done.",
            )

    async def _wait(self, caller: str) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append(mine)
        self._serve()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                # It was this one's turn at the same moment.
                self._free += 1
                self._serve()
            raise

    def _serve(self) -> None:
        """Give free places to the callers whose turn it is."""
        while self._free and self._queues:
            caller, queue = self._queues.popitem(last=False)
            waiting = queue.popleft()
            if queue:
                self._queues[caller] = queue
            # One that was cancelled meanwhile takes no place.
            if not waiting.done():
                self._free -= 1
                waiting.set_result(None)
