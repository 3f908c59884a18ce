"""Time as a value that is passed in, so that whatever waits can be tested without waiting."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time to show, monotonic time to measure with, and a way to wait."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (UTC)."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def wait_s(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (UTC)."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        return time.monotonic()

    async def wait_s(self, seconds: float) -> None:
        """Return once `seconds` have passed."""
        await asyncio.sleep(seconds)
