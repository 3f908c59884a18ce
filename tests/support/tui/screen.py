"""A terminal emulator next to the app: what Textual means, and what the terminal has after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyte
from rich.color import ColorSystem
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from kshunt.tui.terminal.diff_output import DiffApp
from tests.support.waiting import wait_until_async

DEADLINE_S = 60.0

Cells = list[list[tuple[object, ...]]]


class Emulator:
    """A terminal of one size, which other sizes replace."""

    def __init__(self, width: int, height: int) -> None:
        self.written: list[str] = []
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        """Another size. What was shown is littered, as some terminals leave it."""
        self._screen = pyte.Screen(width, height)
        self._screen.set_mode(25 << 5)
        # Textual turns the wrapping of long lines off.
        self._screen.reset_mode(7 << 5)
        self._stream = pyte.Stream(self._screen)
        self._stream.feed("\x1b[31m" + "#" * width)
        self._stream.feed("\x1b[m")

    def write(self, data: str) -> None:
        """What a program sends."""
        self.written.append(data)
        self._stream.feed(data)

    def cells(self) -> Cells:
        """Every cell: its text, colours and attributes."""
        screen = self._screen
        return [
            [tuple(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)
        ]

    def text(self) -> str:
        """The characters alone."""
        return "\n".join(self._screen.display)


class EmulatedDriver(HeadlessDriver):
    """Textual's driver for tests, with a terminal behind it."""

    terminal: Emulator

    @property
    def is_headless(self) -> bool:
        """Not headless: what is drawn is written."""
        return False

    def write(self, data: str) -> None:
        """Let the terminal show it."""
        self.terminal.write(data)


@asynccontextmanager
async def emulated(
    app: App[Any], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[Any], Emulator]]:
    """Run an app in an emulated terminal, as `App.run_test` runs it in none."""
    terminal = Emulator(*size)
    app.driver_class = type("Driver", (EmulatedDriver,), {"terminal": terminal})
    async with app.run_test(size=size, headless=False) as pilot:
        yield pilot, terminal


def meant(app: App[Any]) -> Cells:
    """The cells that Textual's own output would leave on an empty terminal."""
    width, height = app.size
    terminal = Emulator(width, height)
    update = app.screen._compositor.render_full_update()
    terminal.write(update.render_segments(app.console))
    return terminal.cells()


async def all_sent(app: DiffApp, pilot: Pilot[Any]) -> None:
    """Wait until everything that is wanted on the screen was sent."""
    await pilot.pause()
    diff = app._diff
    assert diff is not None
    await wait_until_async(lambda: not diff.pending, DEADLINE_S, "the frame is sent")


async def same(app: DiffApp, pilot: Pilot[Any], terminal: Emulator, what: str) -> None:
    """The terminal shows what Textual means, cell by cell, within a moment.

    What Textual means is asked again while it differs: a frame may be on its way.
    """
    for _ in range(200):
        await all_sent(app, pilot)
        if terminal.cells() == meant(app):
            return
        await asyncio.sleep(0)
    have, want = terminal.cells(), meant(app)
    wrong = [
        (y, x, a, b)
        for y, (mine, theirs) in enumerate(zip(have, want, strict=True))
        for x, (a, b) in enumerate(zip(mine, theirs, strict=True))
        if a != b
    ]
    raise AssertionError(f"after {what}: {len(wrong)} cells differ, first {wrong[:4]}")


TRUECOLOR = ColorSystem.TRUECOLOR
