"""Ends the program when its terminal is gone.

A shell over SSH gets SIGHUP when the line breaks. A program that was started in a container, or
without a controlling terminal, is told nothing: it would try to read and to write for ever, and
take a core for it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading


def end_with_terminal() -> None:
    """From here on, end as by SIGHUP when the terminal on standard input is closed."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # `nohup` asks for it; a dashboard has nothing to do without its terminal.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stdin = sys.__stdin__
    if stdin is not None and stdin.isatty() and hasattr(select, "poll"):
        threading.Thread(target=_wait, args=(stdin.fileno(),), name="hangup", daemon=True).start()


def _wait(terminal: int) -> None:
    closed = select.poll()
    # For no event: it sleeps until the other end is closed, which always counts.
    closed.register(terminal, 0)
    closed.poll()
    os.kill(os.getpid(), signal.SIGHUP)
