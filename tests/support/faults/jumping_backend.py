"""`kshunt serve` whose wall clock jumps: an hour on at SIGUSR1, an hour back at SIGUSR2.

Its monotonic clock continues, as a machine's does when somebody sets the time.
"""

from __future__ import annotations

import signal
import sys

import kshunt.backend.clock
from kshunt.backend.clock import SystemClock

HOUR_MS = 3_600_000


class JumpingClock(SystemClock):
    """The system's clock, plus the hours that it has jumped."""

    ahead_ms = 0

    def now_ms(self) -> int:
        """As the system's, and more."""
        return super().now_ms() + JumpingClock.ahead_ms


def jump(by_ms: int) -> None:
    """Let every clock of this process jump."""
    JumpingClock.ahead_ms += by_ms


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda number, frame: jump(HOUR_MS))
    signal.signal(signal.SIGUSR2, lambda number, frame: jump(-HOUR_MS))
    kshunt.backend.clock.SystemClock = JumpingClock  # type: ignore[misc]
    # Code that asks for the system's clock from here on gets this one.
    from kshunt.backend.cli.main import main

    sys.exit(main(sys.argv[1:]))
