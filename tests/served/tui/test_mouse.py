"""The mouse as a terminal reports it: SGR codes (xterm's mode 1006), in the dashboard that runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tui.emulated_terminal import EmulatedTerminal, emulated

SIZE = (100, 30)
START_S = 120.0
SOON_S = 30.0
MOVE = 32
"""Added to a button that is held while the mouse moves."""


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[EmulatedTerminal]:
    """The demo, once its first numbers are there."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "s"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    # A runner of tests may have set others, which override the size of the terminal.
    environ |= {"COLUMNS": str(SIZE[0]), "LINES": str(SIZE[1])}
    command = [sys.executable, "-m", "kshunt", "demo", "--scenario", "stuck-replica"]
    with emulated(command, environ, SIZE, tmp_path) as running:
        running.until(r"2 Partitions(.|\n)*Moving \d+|Moving \d+(.|\n)*2 Partitions", START_S)
        running.settle(SOON_S)
        yield running


def place(shown: EmulatedTerminal, words: str, line: int | None = None) -> tuple[int, int]:
    """Column and line of words on the screen, from 1."""
    lines = shown.until(re.escape(words), SOON_S).splitlines()
    found = [n for n, text in enumerate(lines) if words in text] if line is None else [line]
    return lines[found[0]].index(words) + 1, found[0] + 1


def report(shown: EmulatedTerminal, code: int, at: tuple[int, int], end: bytes) -> None:
    """One report of the mouse."""
    shown.press(f"\x1b[<{code};{at[0]};{at[1]}".encode() + end)


def click(shown: EmulatedTerminal, at: tuple[int, int]) -> None:
    """The left button, down and up."""
    report(shown, 0, at, b"M")
    report(shown, 0, at, b"m")


def test_the_mouse_of_a_terminal_does_what_keys_do(shown: EmulatedTerminal) -> None:
    click(shown, place(shown, "2 Partitions"))
    shown.until("Topic +Part", SOON_S)
    shown.settle(SOON_S)
    click(shown, place(shown, "Lag bytes"))
    shown.until("Bytes▾", SOON_S)
    shown.settle(SOON_S)
    titles = place(shown, "Bytes▾")[1]
    report(shown, 0, (5, titles + 1), b"M")
    for step in (2, 3):
        report(shown, MOVE, (5, titles + step), b"M")
    report(shown, 0, (5, titles + 3), b"m")
    shown.until("3 marked", SOON_S)
    shown.settle(SOON_S)
    click(shown, (5, titles + 2))
    click(shown, (5, titles + 2))
    shown.until("Esc closes", SOON_S)
    shown.press(b"\x1b")
    shown.until(r"\? help", SOON_S)
    shown.settle(SOON_S)
    click(shown, place(shown, "help", SIZE[1] - 1))
    shown.until("Keys of the partitions view", SOON_S)
