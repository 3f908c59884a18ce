"""Ends the program with its terminal, and leaves a terminal as it was when the program is ended.

A shell over SSH gets SIGHUP when the line breaks. A program that was started in a container, or
without a controlling terminal, gets no signal. It would try to read and to write for ever, and take
a core for it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

LEAVING_S: Final = 3.0
"""How long the dashboard may take to leave once it is told to end."""
_HANGUP: Final = "kshunt-hangup"
_STREAMS: Final = {"standard input": 0, "standard output": 1, "standard error": 2}
_RESTORED: Final = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[<u\x1b[?1049l\x1b[?25h"
)
"""Ends mouse, paste and key reports, leaves the alternate screen, and shows the cursor."""


def not_terminals() -> list[str]:
    """The standard streams of this process that are no terminal."""
    return [name for name, number in _STREAMS.items() if not os.isatty(number)]


def end_with_terminal() -> None:
    """From here on, end as by SIGHUP when the terminal on standard input is closed."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # `nohup` asks for it; a dashboard has nothing to do without its terminal.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if any(thread.name == _HANGUP for thread in threading.enumerate()):
        return
    stdin = sys.__stdin__
    if stdin is not None and stdin.isatty() and hasattr(select, "poll"):
        threading.Thread(target=_wait, args=(stdin.fileno(),), name=_HANGUP, daemon=True).start()


def _wait(terminal: int) -> None:
    _closed(terminal, None)
    os.kill(os.getpid(), signal.SIGHUP)


def _closed(terminal: int, timeout_ms: int | None) -> bool:
    """Whether the other end of a terminal is closed, or is within the time; None waits for it."""
    closed = select.poll()
    # For no event: it sleeps until the other end is closed, which always counts.
    closed.register(terminal, 0)
    return bool(closed.poll(timeout_ms))


def leave_when_ended(leave: Callable[[int], object]) -> None:
    """On SIGTERM, and on SIGHUP while the terminal is there, leave as if the operator had.

    `leave` is called with the exit code on the event loop of this thread. A dashboard that is still
    there `LEAVING_S` later ends immediately, with the terminal restored.
    """

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None or _closed(0, 0):
            os.kill(os.getpid(), number)
            return
        code = 128 + number
        late = threading.Timer(LEAVING_S, _end_now, (code,))
        late.daemon = True
        late.start()
        loop.call_soon_threadsafe(leave, code)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def _end_now(code: int) -> None:
    os.write(2, _RESTORED.encode())
    os._exit(code)
