"""A program in a terminal of its own, for tests and benchmarks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.waiting import give_up_at_s

LINES, COLUMNS = 24, 80
READ_BYTES = 65_536
# The leader of a session takes the terminal for its own, so that it hears of its end.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """The program, and everything that it has written."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.written = b""
        self._master = master

    def until(self, pattern: bytes, deadline_s: float) -> re.Match[bytes]:
        """Wait until it has written something; the match."""
        give_up = give_up_at_s(deadline_s)
        while (match := re.search(pattern, self.written)) is None:
            left_s = give_up - time.monotonic()
            if left_s <= 0 or not self._read(left_s):
                raise AssertionError(f"not written: {pattern!r}; last {self.written[-500:]!r}")
        return match

    def ended(self, deadline_s: float) -> int:
        """Its exit code, once it has ended."""
        give_up = give_up_at_s(deadline_s)
        while self.process.poll() is None and time.monotonic() < give_up:
            self._read(0.05)
        return self.process.wait(0.1)

    def press(self, keys: bytes) -> None:
        """Type something."""
        os.write(self._master, keys)

    def hang_up(self) -> None:
        """Close the terminal, as an SSH session that breaks."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        """End the program, if it has not, and the terminal."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._master >= 0:
            os.close(self._master)

    def resize(self, columns: int, lines: int) -> None:
        """Another size; the program hears of it."""
        _set_size(self._master, columns, lines)

    def take(self, timeout_s: float, most: int = READ_BYTES) -> bytes | None:
        """What it writes next, without keeping it; empty for nothing in time, None at its end."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return b""
        # EIO: the program has closed its side.
        with suppress(OSError):
            return os.read(self._master, most) or None
        return None

    def _read(self, timeout_s: float) -> bool:
        """True if there was something, or there still may be."""
        data = self.take(timeout_s)
        self.written += data or b""
        return bool(data)


def _set_size(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextmanager
def terminal(
    command: Sequence[str],
    environ: Mapping[str, str],
    size: tuple[int, int] = (COLUMNS, LINES),
    *,
    controlling: bool = True,
    folder: Path = ROOT,
) -> Iterator[Terminal]:
    """A program that believes to be in a terminal of this size; it is killed at the end.

    `folder` is its working directory.

    The system tells it of the end of its terminal only where that is its `controlling` one.
    """
    master, slave = pty.openpty()
    _set_size(slave, *size)
    process = subprocess.Popen(
        [*([sys.executable, "-c", TAKE_TERMINAL] if controlling else []), *command],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **environ},
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        shown.close()
