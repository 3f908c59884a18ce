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

ROOT = Path(__file__).parent.parent
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
        give_up = time.monotonic() + deadline_s
        while (match := re.search(pattern, self.written)) is None:
            left_s = give_up - time.monotonic()
            if left_s <= 0 or not self._read(left_s):
                raise AssertionError(f"not written: {pattern!r}; last {self.written[-500:]!r}")
        return match

    def ended(self, deadline_s: float) -> int:
        """Its exit code, once it has ended."""
        give_up = time.monotonic() + deadline_s
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

    def _read(self, timeout_s: float) -> bool:
        """True if there was something, or there still may be."""
        if select.select([self._master], [], [], timeout_s)[0]:
            # EIO: the program has closed its side.
            with suppress(OSError):
                data = os.read(self._master, READ_BYTES)
                self.written += data
                return bool(data)
        return False


@contextmanager
def terminal(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Terminal]:
    """A program that believes to be in an 80x24 terminal; it is killed at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *command],
        cwd=ROOT,
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
