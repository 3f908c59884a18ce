"""Forks that work on files of results, and are killed before one of their changes of the disk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Final

# Each fork would load these anew: they sort, and read footers.
import pyarrow.acero
import pyarrow.dataset  # noqa: F401

CHANGES: Final = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime"}


def status_of(work: Callable[[], None]) -> int:
    """Let a fork of this process do the work; how it ended, as `os.waitpid` says it."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status


def say(status: int) -> None:
    """Print whether a fork was killed, or else how it ended."""
    sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"{status}\n")
    sys.stdout.flush()


def kill_at(number: int) -> None:
    """Let that many changes of the disk happen, and end this process before the next one."""
    steps = iter(range(number))

    def hear(event: str, args: tuple[object, ...]) -> None:
        writes = event == "open" and len(args) > 2 and int(str(args[2])) & os.O_CREAT
        if (event in CHANGES or writes) and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
