"""How much of what was sent the terminal has taken in, as the terminal itself answers.

Goals
    A link may be slower than what there is to say. What was sent and not yet shown stays within a
    bound, so that the newest frame is never far behind.
Constraints
    What lies in the buffers between (a pseudo-terminal's, a socket's) is not told by any of them.
    A quick link is not slowed, and a tick of a few cells costs no byte more.
Algorithm
    After `ASK_BYTES` the terminal is asked something that it answers in order, once it has shown
    what came before. While an answer is out, only a window of bytes may follow. Answers that come
    soon widen it, late ones narrow it.
"""

from __future__ import annotations

from typing import Final

ASK_BYTES: Final = 1_000
"""How much is sent between two questions."""
WINDOW_LEAST: Final = 1_000
WINDOW_MOST: Final = 16_000
WINDOW_BYTES: Final = 4_000
"""What may be under way at the start."""
SOON_S: Final = 0.25
LATE_S: Final = 1.0
LOST_S: Final = 20.0
"""An answer that takes longer does not come any more."""


class UnderWay:
    """What is under way to a terminal. Times are by a clock that never goes back."""

    def __init__(self) -> None:
        self.window_bytes = WINDOW_BYTES
        self.under_way_bytes = 0
        """Sent, and not known to be shown."""
        self._behind_bytes = 0
        """Of these, what the answer that is out does not cover."""
        self._asked_s: float | None = None

    def sent(self, count: int, now_s: float) -> bool:
        """Count bytes that go out; True where a question has to go with them."""
        self.under_way_bytes += count
        if self._asked_s is not None:
            self._behind_bytes += count
            return False
        if self.under_way_bytes < ASK_BYTES:
            return False
        self._asked_s, self._behind_bytes = now_s, 0
        return True

    def answered(self, now_s: float) -> None:
        """The terminal has shown what came before the question."""
        if self._asked_s is None:
            return
        answer_s = now_s - self._asked_s
        if answer_s < SOON_S:
            self.window_bytes = min(self.window_bytes * 2, WINDOW_MOST)
        elif answer_s > LATE_S:
            self.window_bytes = max(self.window_bytes // 2, WINDOW_LEAST)
        self._asked_s, self.under_way_bytes = None, self._behind_bytes

    def full(self, now_s: float) -> bool:
        """Whether nothing more may be sent for a moment."""
        if self._asked_s is not None and now_s - self._asked_s > LOST_S:
            self._asked_s, self.under_way_bytes = None, 0
        return self._asked_s is not None and self.under_way_bytes >= self.window_bytes
