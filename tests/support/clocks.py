"""Clocks that go as a test wants it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StoppedClock:
    """A clock that moves only when a test moves it."""

    ms: int = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    async def wait_s(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
