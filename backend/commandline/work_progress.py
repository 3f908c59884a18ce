"""What a command says while long work is under way: what, how far, how long yet.

Goals
    A person who waits knows within a second that something is done, and later whether it is worth
    waiting. What a command prints at its end is the same with and without.
Constraints
    Work may say nothing of how far it is for a long time. Standard error may be a file.
Algorithm
    A thread writes on standard error: on a terminal one line, anew twice a second, which is erased
    at the end; elsewhere a line every ten seconds. Work that ends within a second says nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

from kshunt.backend.domain.text.formatting import duration_text, printable

FIRST_S: Final = 1.0
ANEW_S: Final = 0.5
"""Between two lines on a terminal."""
RARELY_S: Final = 10.0
"""Between two lines elsewhere."""
GUESS_FROM: Final = 0.03
"""Below this share, what is left is not estimated."""


class WorkProgress:
    """Reports one piece of work, from `with` to its end."""

    def __init__(
        self,
        what: str,
        where: TextIO,
        now_s: Callable[[], float] = time.monotonic,
        detail: Callable[[], str] | None = None,
    ) -> None:
        """Begin.

        Args:
            what: what is done, as `Rehearsing`.
            where: standard error.
            now_s: a clock that never goes back.
            detail: says where the work is, for work that cannot say it itself. The thread that
                writes asks it before each line.
        """
        self._what, self._where, self._now_s = what, where, now_s
        self._ask = detail
        self._since_s = now_s()
        self._share = 0.0
        self._detail = ""
        self._on_terminal = where.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def is_at(self, share: float, detail: str = "") -> None:
        """Say how far the work is.

        Args:
            share: from 0 to 1.
            detail: where it is, as `throttle 2 of 5`.
        """
        self._share, self._detail = share, detail

    @property
    def line(self) -> str:
        """`Rehearsing throttle 2 of 5: 40% after 12s, about 18s left`."""
        spent_s = self._now_s() - self._since_s
        what = " ".join(filter(None, (self._what, self._detail)))
        if not 0 < self._share < 1:
            return f"{what}: {duration_text(spent_s)}"
        words = f"{what}: {int(self._share * 100)}% after {duration_text(spent_s)}"
        if self._share < GUESS_FROM:
            return words
        left_s = spent_s * (1 - self._share) / self._share
        return f"{words}, about {duration_text(left_s)} left"

    def _tell(self) -> None:
        shown = False
        every_s = FIRST_S
        while not self._over.wait(every_s):
            if self._ask is not None:
                self._detail = self._ask()
            text = printable(self.line)
            self._write(f"\r\x1b[2K{text}" if self._on_terminal else f"{text}\n")
            shown, every_s = True, ANEW_S if self._on_terminal else RARELY_S
        if shown and self._on_terminal:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        try:
            self._where.write(text)
            self._where.flush()
        except (OSError, ValueError):
            # Nobody reads it any more; the work continues.
            self._over.set()
