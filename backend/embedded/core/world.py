"""What a broker's handlers see: the cluster, and a way to wait until something becomes true.

It belongs to one event loop. Handlers read `core`, and change it by `commit` and `changed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.replica_placement import (
    Placement,
    striped_placement,
    with_principal,
)
from kshunt.backend.embedded.core.cluster_core import Core
from kshunt.backend.embedded.security.authorizer import Authorizer

Item = TypeVar("Item")

STEP_MS: Final = 10
"""How far a simulated clock advances at a time while a producer waits for replicas."""


class World:
    """See the module."""

    def __init__(
        self,
        core: Core,
        *,
        cluster_id: str = "",
        simulated: bool = False,
        native: bool = True,
        clock: Clock | None = None,
        placement: Placement = striped_placement,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.core = core
        self.cluster_id = cluster_id
        self.simulated = simulated
        """Whether the cluster's time stands still until somebody moves it."""
        self.native = native
        """Whether brokers speak the seeds' own RPCs."""
        self.clock = clock or SystemClock()
        """The time of clients: time-outs, sessions, waits."""
        self._placement = placement
        self.authorizer = authorizer
        """Decides who may do what; None where everybody may do everything."""
        self._waiting: list[asyncio.Future[None]] = []

    def placement_for(self, principal: str) -> Placement:
        """What chooses brokers for the new partitions that a principal asks for (KIP-660)."""
        return with_principal(principal, self._placement)

    def commit(self, decision: Decision[Item]) -> Decision[Item]:
        """`Core.commit`; every request that waits looks again.

        Raises:
            ControllerLost: the controller crashed in the middle of it, on demand.
        """
        try:
            return self.core.commit(decision)
        finally:
            self.changed()

    def changed(self) -> None:
        """Something is different: everybody who waits looks again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(
        self, ready: Callable[[], bool], timeout_s: float, *, moves_clock: bool = False
    ) -> bool:
        """Wait until `ready` is true; False if it is not after `timeout_s`.

        With `moves_clock` a simulated clock advances meanwhile, as far as is needed.
        """
        if moves_clock and self.simulated:
            return await self._simulated_until(ready, timeout_s)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not ready():
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            future = loop.create_future()
            self._waiting.append(future)
            await asyncio.wait([future], timeout=left_s)
        return True

    async def _simulated_until(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        deadline_ms = self.core.now_ms + int(timeout_s * 1000)
        while not ready():
            if self.core.now_ms >= deadline_ms:
                return False
            self.core.advance(self.core.now_ms + STEP_MS)
            self.changed()
            await asyncio.sleep(0)
        return True
