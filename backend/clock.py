"""Time as a value that is passed in, so that whatever waits can be tested without waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

TIMES: Final = "90s, 30m, 2h, 7d, 2026-11-21 or 2026-11-21T20:50:00+01:00"
"""Examples of what `time_ms` reads."""
_AGO: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS: Final[Mapping[str, int]] = {
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def time_ms(text: str, now_ms: int) -> int:
    """A time as a person writes it, in milliseconds since the epoch.

    Raises:
        ValueError: the text is not a time.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    try:
        # A time without an offset is that of this machine.
        return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from None


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
        import asyncio

        await asyncio.sleep(seconds)
