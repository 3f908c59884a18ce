"""A cast: what a terminal was sent and when, in the format asciicast v2.

Each frame holds the lines that differ from the frame before. A player needs only to place the
cursor and to write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

CLEAR = "\x1b[?25l\x1b[?7l\x1b[2J"
"""Hides the cursor, does not wrap long lines, and empties the terminal."""


class Cast:
    """The text of one cast, frame by frame."""

    def __init__(self, size: tuple[int, int], *, title: str, began_s: int) -> None:
        """`began_s`: what the clock on the wall said at the first frame."""
        self._header = {
            "version": 2,
            "width": size[0],
            "height": size[1],
            "timestamp": began_s,
            "title": title,
            "env": {"TERM": "xterm-256color"},
        }
        self._events: list[tuple[float, str, str]] = []
        self._lines: Sequence[str] = ()

    def add(self, at_s: float, lines: Sequence[str]) -> None:
        """Show these lines from a moment on; `at_s` never goes back."""
        before = self._lines
        begins = "" if before else CLEAR
        changed = (
            f"\x1b[{row};1H{line}\x1b[m"
            for row, line in enumerate(lines, 1)
            if row > len(before) or before[row - 1] != line
        )
        data = begins + "".join(changed)
        if data:
            self._events.append((round(at_s, 3), "o", data))
        self._lines = tuple(lines)

    def text(self, duration_s: float) -> str:
        """The file's content. The last frame stays until the duration is over."""
        header = {**self._header, "duration": round(duration_s, 3)}
        events = [*self._events, (round(duration_s, 3), "o", "")]
        return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in (header, *events))
