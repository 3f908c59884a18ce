"""How long the event loop was held up: for that time no request and no operation advances."""

from __future__ import annotations

from typing import Final

from kshunt.backend.clock import Clock

LOOK_S: Final = 0.02
"""How often it is looked; a stall is told too short by this at most."""
WINDOW_S: Final = 60.0


class LoopDelay:
    """The longest stall of the last minute or two."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._this_s = 0.0
        self._former_s = 0.0

    @property
    def longest_s(self) -> float:
        """Of this minute and the one before."""
        return max(self._this_s, self._former_s)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        turned_s = self._clock.monotonic_s()
        while True:
            asked_s = self._clock.monotonic_s()
            await self._clock.wait_s(LOOK_S)
            now_s = self._clock.monotonic_s()
            self._this_s = max(self._this_s, now_s - asked_s - LOOK_S)
            if now_s - turned_s >= WINDOW_S:
                turned_s, self._former_s, self._this_s = now_s, self._this_s, 0.0
