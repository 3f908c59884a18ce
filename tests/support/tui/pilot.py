"""The dashboard under the hands of a test: it waits for what is busy, and paints what is settled.

Textual's own pilot asks every widget whether it is done, by a message to each, and waits twice for
the process to be idle. A terminal is sent each frame. Here each state that a test has waited for is
painted once: when the test looks at it, or before the next key. Frames between two such states
depend on the machine, and nobody sees them.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from inspect import getfile
from pathlib import Path
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events
from textual._compositor import Compositor
from textual._queue import Queue
from textual._wait import wait_for_idle
from textual.app import ScreenStackError
from textual.geometry import Size
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout
from textual.screen import Screen
from textual.strip import Strip

from kshunt.tui.app import KshuntApp

DEADLINE_S = 30.0
ROUNDS = 8
"""How often widgets may give each other something to do; a screen that never rests is let be."""


class SparingCompositor(Compositor):
    """Paints what has changed once it is told to; until then it keeps in mind where that is."""

    paints = False

    def render_update(
        self,
        full: bool = False,
        screen_stack: list[Screen[Any]] | None = None,
        simplify: bool = False,
    ) -> RenderableType | None:
        """What has changed, or nothing yet; a picture is of the full screen."""
        if not full and not self.paints:
            return None
        return super().render_update(full, screen_stack, simplify)

    def render_strips(self, size: Size | None = None) -> list[Strip]:
        """The whole screen: after it nothing is left to paint."""
        strips = super().render_strips(size)
        self._dirty_regions.clear()
        return strips


class SparingApp(KshuntApp):
    """The dashboard without the frames at which nobody looks."""

    CSS_PATH: ClassVar[Any] = [Path(getfile(KshuntApp)).parent / one for one in KshuntApp.CSS_PATH]

    def _register(self, parent: Any, *widgets: Any, **named: Any) -> Any:
        for widget in widgets:
            if isinstance(widget, Screen):
                widget._compositor = SparingCompositor()
        return super()._register(parent, *widgets, **named)


class QuickPilot(Pilot[Any]):
    """A pilot that waits for widgets that have something to do, and looks once it has waited."""

    async def press(self, *keys: str) -> None:
        """Press keys, and wait for their effect."""
        self.paint()
        for key in keys:
            self._send(key)
            await wait_for_idle(0)
            await self.app._animator.wait_until_complete()
        await self._wait_for_screen()

    def _send(self, key: str) -> None:
        """As `App._press_keys` sends it."""
        if len(key) == 1 and not key.isalnum():
            key = _character_to_key(key)
        character = key if len(key) == 1 else None
        with suppress(KeyError):
            named = _get_unicode_name_from_key(REPLACED_KEYS.get(key, key))
            character = unicodedata.lookup(named)
        event = events.Key(key, character)
        event.set_sender(self.app)
        assert self.app._driver is not None
        self.app._driver.send_message(event)

    async def pause(self, delay: float | None = None) -> None:
        """Wait until nothing is done, and what that leads to on the screen."""
        await super().pause(delay)
        await self._wait_for_screen()

    async def resize_terminal(self, width: int, height: int) -> None:
        """Another size of the terminal."""
        self.paint()
        await super().resize_terminal(width, height)

    def paint(self) -> None:
        """Paint what has changed since the last time, and since the test looked."""
        with suppress(ScreenStackError):
            screen = self.app.screen
            compositor = screen._compositor
            if isinstance(compositor, SparingCompositor) and screen.is_running:
                compositor.paints = True
                try:
                    screen._compositor_refresh()
                finally:
                    compositor.paints = False

    async def _wait_for_screen(self, timeout: float = DEADLINE_S) -> bool:  # noqa: ASYNC109
        """Wait until no widget has anything to do, which may take some rounds.

        Returns:
            False where the application ended by an error.

        Raises:
            WaitForScreenTimeout: a widget has not done so in time.
        """
        for _ in range(ROUNDS):
            # A widget that has just said that it is done comes to rest some turns later.
            for _turn in range(4):
                await asyncio.sleep(0)
            try:
                screen = self.app.screen
            except ScreenStackError:
                return False
            pumps = (self.app, *screen.walk_children(with_self=True))
            told = [event for event in map(_told, pumps) if event is not None]
            if not told:
                break
            if not await self._done(told, timeout):
                return False
        return not self.app._exception_event.is_set()

    async def _done(self, told: list[asyncio.Event], timeout_s: float) -> bool:
        """Wait until widgets have done what they had to do; False where the application failed."""
        every: asyncio.Future[Any] = asyncio.gather(*(event.wait() for event in told))
        failure: asyncio.Event = self.app._exception_event
        failed: asyncio.Future[Any] = asyncio.ensure_future(failure.wait())
        ended, waiting = await asyncio.wait(
            (every, failed), timeout=timeout_s, return_when="FIRST_COMPLETED"
        )
        for future in waiting:
            future.cancel()
        if not ended:
            raise WaitForScreenTimeout("a widget is still busy")
        return failed not in ended


def _told(pump: MessagePump) -> asyncio.Event | None:
    """Is set once a widget has done what it has to do; None where it waits for something to do."""
    queue: Queue[Any] = pump._message_queue
    if queue.empty() and queue.ready_event._waiters and not _is_laid_out_later(pump):
        return None
    done = asyncio.Event()
    return done if pump.call_later(done.set) else None


def _is_laid_out_later(pump: MessagePump) -> bool:
    """Whether a screen waits for its timer to give widgets their places; it is done after that."""
    return (
        isinstance(pump, Screen)
        and pump.is_current
        and (pump._layout_required or pump._scroll_required)
    )


@asynccontextmanager
async def driven(app: KshuntApp, size: tuple[int, int]) -> AsyncIterator[QuickPilot]:
    """Run a dashboard without a terminal."""
    async with app.run_test(size=size):
        pilot = QuickPilot(app)
        yield pilot
        pilot.paint()
