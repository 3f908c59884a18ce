"""A program in a terminal of its own, whose screen can be read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.terminal import Terminal, terminal
from tests.support.tui.screen import Emulator
from tests.support.waiting import give_up_at_s

LOOK_S = 0.1
QUIET_S = 0.25
LOOKS = 10
"""In that time."""


class EmulatedTerminal:
    """The program, its keys, and what is on the screen."""

    def __init__(self, program: Terminal, emulator: Emulator, folder: Path) -> None:
        self.program = program
        self.folder = folder
        """Its working directory."""
        self.keys = 0
        """How many were pressed."""
        self._emulator = emulator
        self._fed = 0

    def press(self, *keys: bytes) -> None:
        """Press keys, each as the bytes that a terminal sends for it."""
        for key in keys:
            self.program.press(key)
        self.keys += len(keys)

    def write(self, text: str) -> None:
        """Type a text: each of its characters is a key."""
        self.press(*(character.encode() for character in text))

    def text(self) -> str:
        """What is on the screen."""
        new = self.program.written[self._fed :]
        self._fed += len(new)
        self._emulator.write(new.decode("utf-8", "ignore"))
        return self._emulator.text()

    def until(self, pattern: str, deadline_s: float) -> str:
        """The screen, once the pattern is on it."""
        give_up_s = give_up_at_s(deadline_s)
        while time.monotonic() < give_up_s:
            if re.search(pattern, text := self.text()):
                return text
            self.program.written += self.program.take(LOOK_S) or b""
        raise AssertionError(f"not within {deadline_s:g} s: {pattern}\n{self.text()}")

    def settle(self, deadline_s: float) -> None:
        """Wait until nothing is written for a moment in which the program waits, too.

        A question agrees to nothing that was pressed before it was painted whole. On a busy
        machine a program may be quiet because it does not get its turn.
        """
        give_up_s, looks = give_up_at_s(deadline_s), 0
        while time.monotonic() < give_up_s:
            if (more := self.program.take(QUIET_S / LOOKS)) is None:
                return
            self.program.written += more
            looks = 0 if more or self._has_work() else looks + 1
            if looks == LOOKS:
                return
        raise AssertionError(f"it works all the time, for {deadline_s:g} s\n{self.text()}")

    def _has_work(self) -> bool:
        """Whether the program's first thread runs, or would; False where no one can say."""
        with suppress(FileNotFoundError):
            stat = Path(f"/proc/{self.program.process.pid}/stat").read_text("utf-8")
            return stat.rpartition(")")[2].split()[0] == "R"
        return False


@contextmanager
def emulated(
    command: Sequence[str], environ: Mapping[str, str], size: tuple[int, int], folder: Path = ROOT
) -> Iterator[EmulatedTerminal]:
    """A program in a terminal of this size, and in this folder; it is killed at the end."""
    with terminal(command, environ, size, folder=folder) as program:
        yield EmulatedTerminal(program, Emulator(*size), folder)
