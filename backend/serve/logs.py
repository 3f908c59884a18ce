"""How a backend logs: a line an event, for people or for machines.

What repeats is counted: a line is written once a minute, and then how often it came. A fault in
compiled code ends the process before any line; Python then writes where each thread was.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

FORMATS: Final = ("text", "json")
STANDARD_ERROR: Final = 2
"""Its file descriptor."""


class JsonLines(logging.Formatter):
    """One JSON object a line; a traceback is one of its values."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


class TextLines(logging.Formatter):
    """One line for people; what users and brokers say cannot pass for a line of its own, nor tell
    a terminal anything."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, before a traceback."""
        record.message = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in record.message)
        return super().formatMessage(record)


WINDOW_S: Final = 60.0
"""A line that was written is not written again for this time."""
ALIKE_MAX: Final = 100
"""Lines in that time that differ in their values only, such as an address; others are counted."""
WINDOWS_MAX: Final = 2_000
"""Different lines that are remembered; beyond that each is written."""


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


@dataclass(slots=True)
class _Window:
    """What came of one line, or of lines that are alike, since the first one."""

    until_s: float
    left: int
    """How many may still be written."""
    held: list[logging.LogRecord] = field(default_factory=list)
    """The last one that was not written."""
    count: int = 0
    """Those that were not written."""


class Repeats(logging.Filter):
    """Lets a line pass once a minute, and has the handler say how often it came again."""

    def __init__(
        self,
        handler: logging.Handler,
        clock_s: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Callable[[], None]], None] = _call_later,
    ) -> None:
        super().__init__()
        self._handler = handler
        self._clock_s = clock_s
        self._call_later = call_later
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, ...], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written now."""
        level, raised = str(record.levelno), str(record.exc_info and record.exc_info[0])
        same = ("same", record.name, level, raised, record.getMessage())
        alike = ("alike", record.name, level, raised, str(record.msg))
        with self._lock:
            return self._passes(same, 1, record) and self._passes(alike, ALIKE_MAX, record)

    def _passes(self, key: tuple[str, ...], most: int, record: logging.LogRecord) -> bool:
        now_s = self._clock_s()
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= WINDOWS_MAX:
                self._forget(now_s)
            if len(self._windows) >= WINDOWS_MAX:
                return True
            window = self._windows[key] = _Window(now_s + WINDOW_S, most)
        elif not window.count and now_s >= window.until_s:
            window = self._windows[key] = _Window(now_s + WINDOW_S, most)
        if window.left:
            window.left -= 1
            return True
        if not window.count:
            self._call_later(max(0.0, window.until_s - now_s), lambda: self._tell(key))
        window.count += 1
        window.held = [record]
        return False

    def _forget(self, now_s: float) -> None:
        over = [key for key, one in self._windows.items() if not one.count and one.until_s <= now_s]
        for key in over:
            del self._windows[key]

    def _tell(self, key: tuple[str, ...]) -> None:
        with self._lock:
            window = self._windows.pop(key)
        summary = copy(window.held[0])
        times = "once more" if window.count == 1 else f"{window.count} times"
        others = "" if key[0] == "same" else "Lines like this one: "
        summary.msg = f"{others}{summary.getMessage()} ({times} in the last minute)"
        # The first one was written with its traceback.
        summary.args, summary.exc_info, summary.exc_text = (), None, None
        self._handler.acquire()
        try:
            self._handler.emit(summary)
        finally:
            self._handler.release()


def set_up(format: str) -> None:
    """Log to standard error, from now on."""
    faulthandler.enable(STANDARD_ERROR)
    handler = logging.StreamHandler()
    if format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(TextLines("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(Repeats(handler))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # It logs every request with its whole address, which may be a secret (a webhook's).
    logging.getLogger("httpx").setLevel(logging.WARNING)
