"""Faults of a broker's connections, on demand.

They belong to the event loop that the broker runs on, like everything else of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from kshunt.backend.clock import Clock


@dataclass(slots=True)
class Faults:
    """What goes wrong on one broker's connections; nothing, at first.

    A broker that is down is one whose listener is stopped: clients are then refused by the
    operating system. These are the faults of a broker that runs.
    """

    refuse: bool = False
    """New connections are reset as soon as they are accepted."""
    delay_s: float = 0.0
    """How much later every answer leaves."""
    _cuts: dict[int | None, int] = field(default_factory=dict)
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._flowing.set()

    @property
    def stalled(self) -> bool:
        """Whether the broker is silent; see `stall`."""
        return not self._flowing.is_set()

    def stall(self) -> None:
        """Read nothing and answer nothing more, with every socket open, as a stopped process."""
        self._flowing.clear()

    def resume(self) -> None:
        """Continue where `stall` stopped it; nothing that was sent is lost."""
        self._flowing.set()

    def cut(self, api_key: int | None = None, times: int = 1) -> None:
        """Reset the connection in the middle of the next `times` answers of this API, or of any."""
        self._cuts[api_key] = times

    def heal(self) -> None:
        """End every fault."""
        self.refuse = False
        self.delay_s = 0.0
        self._cuts.clear()
        self.resume()

    def takes_cut(self, api_key: int) -> bool:
        """Whether the answer that is about to leave is to be cut; it then counts as done."""
        for key in (api_key, None):
            left = self._cuts.get(key, 0)
            if left:
                self._cuts[key] = left - 1
                return True
        return False

    async def before_reading(self) -> None:
        """Returns once the broker may read."""
        await self._flowing.wait()

    async def before_answering(self, clock: Clock) -> None:
        """Returns once an answer may leave."""
        if self.delay_s:
            await clock.wait_s(self.delay_s)
        await self._flowing.wait()
