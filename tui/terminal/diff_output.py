"""An app that sends its screen as differences, at a pace that the terminal can take.

Keys are painted immediately. What comes by itself (snapshots, clocks) is painted at most four times
a second. It is not painted at all while the terminal still takes in what it was sent. The frames
between are dropped, and the next one holds what they held.

`App._display` and what it hands over are private to Textual. Where they are not the ones this was
made for, Textual's own output is used.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import textual
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual.app import App
from textual.geometry import Offset, Size

from kshunt.tui.terminal.flow_control import UnderWay

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen
    from textual.timer import Timer, TimerCallback

    from kshunt.tui.terminal.screen_diff import ScreenDiff

KNOWN_TEXTUAL: Final = "8.2.8"
"""The version whose private parts are known."""

REPAINT_S: Final = 0.25
"""The least time between two frames that no key caused."""

BUSY_S: Final = 0.05
"""How soon it is looked again whether the terminal has taken everything in."""

KEY_S: Final = 0.25
"""A frame within this time after a key counts as the key's effect."""

BEHIND_S: Final = 2.0
"""For this time after a frame had to wait, the terminal counts as one that cannot keep up."""

SLOW_REFRESH_S: Final = 3.0
"""Between two snapshots that are shown on a terminal that cannot keep up."""

QUESTION: Final = "\x1b[?2026$p"
"""What a terminal that knows synchronized output answers, in order with all else."""

_PRIVATE: Final = ("_batch_count", "_closed", "_previous_cursor_position", "_sync_available")


class Pace:
    """When a frame may be sent, by a clock that never goes back."""

    def __init__(self) -> None:
        self._sent_s = float("-inf")
        self._key_s = float("-inf")
        self._busy_s = float("-inf")

    def pressed(self, now_s: float) -> None:
        """The operator did something."""
        self._key_s = now_s

    def sent(self, now_s: float) -> None:
        """A frame went out."""
        self._sent_s = now_s

    def wait_s(self, now_s: float, *, busy: bool) -> float:
        """How long a frame has to wait; 0 if it may go out."""
        if busy:
            self._busy_s = now_s
            return BUSY_S
        if now_s - self._key_s < KEY_S:
            return 0.0
        return max(self._sent_s + REPAINT_S - now_s, 0.0)

    def behind(self, now_s: float) -> bool:
        """Whether a frame had to wait for the terminal in the last `BEHIND_S`."""
        return now_s - self._busy_s < BEHIND_S


def known_textual(app: App[None]) -> bool:
    """Whether this is the Textual whose output is replaced."""
    if _version() != KNOWN_TEXTUAL or not all(hasattr(app, name) for name in _PRIVATE):
        return False
    from textual import _compositor
    from textual.strip import Strip

    updates = ("ChopsUpdate", "LayoutUpdate")
    return hasattr(Strip, "render_ansi") and all(hasattr(_compositor, name) for name in updates)


def _version() -> str:
    """Textual's version, found without the library that reads packages: it is slow to load."""
    if "__version__" not in vars(textual):
        installed = Path(textual.__file__).parent.parent
        if (installed / f"textual-{KNOWN_TEXTUAL}.dist-info").is_dir():
            return KNOWN_TEXTUAL
    return textual.__version__


class DiffApp(App[None]):
    """An app whose terminal is sent only what differs."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._pace = Pace()
        self._under_way = UnderWay()
        self._diff: ScreenDiff | None = None
        self._frame_due: Timer | None = None
        if known_textual(self):
            from kshunt.tui.terminal.screen_diff import ScreenDiff

            self._diff = ScreenDiff()

    def on_mount(self) -> None:
        """Forget the screen when another program may have written on the terminal."""
        self.app_suspend_signal.subscribe(self, self._forget_screen, immediate=True)
        self.app_resume_signal.subscribe(self, self._forget_screen, immediate=True)

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """As Textual's, but it also fires where the process got no processor for `delay` seconds.

        Textual's would skip the call then, and there is only one. Frames and new sizes of the
        terminal wait for such timers.
        """
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer

    @property
    def output_busy(self) -> bool:
        """True while the terminal has not taken in what it was sent."""
        writer = getattr(self._driver, "_writer_thread", None)
        queue = getattr(writer, "_queue", None)
        waiting = queue is not None and queue.qsize() > 0
        return waiting or self._under_way.full(time.monotonic())

    def on_terminal_supports_synchronized_output(self) -> None:
        """The terminal has taken in what was sent up to the question."""
        self._under_way.answered(time.monotonic())

    @property
    def output_behind(self) -> bool:
        """True while the terminal cannot keep up, and a little longer."""
        return self._pace.behind(time.monotonic())

    @property
    def shown_size(self) -> Size:
        """The part of the terminal that is painted."""
        return self.screen.outer_size

    def _forget_screen(self, _: object = None) -> None:
        if self._diff is not None:
            self._diff.forget()

    def write_codes(self, codes: str) -> None:
        """Send codes that paint nothing, where there is a terminal of our own."""
        if codes and self._driver is not None and not self.is_headless:
            self._driver.write(codes)
            self._driver.flush()

    def redraw(self) -> None:
        """Send the whole screen again: something else wrote on it."""
        self._forget_screen()
        self.refresh(layout=True)

    async def on_event(self, event: events.Event) -> None:
        """Note what the operator does, and that the terminal has another size."""
        if isinstance(event, events.InputEvent | events.Paste | events.Resize):
            self._pace.pressed(time.monotonic())
        if isinstance(event, events.Resize):
            # A terminal of another size shows what it likes until it is painted.
            self._forget_screen()
        await super().on_event(event)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        diff, driver = self._diff, self._driver
        if renderable is None or diff is None or driver is None:
            super()._display(screen, renderable)
            return
        if self.is_headless or driver.is_inline:
            super()._display(screen, renderable)
            return
        from textual._compositor import ChopsUpdate, LayoutUpdate

        if not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            diff.forget()
            super()._display(screen, renderable)
            return
        if not self._batch_count and self._running and not self._closed:
            if isinstance(renderable, LayoutUpdate):
                # Another screen, size or theme: no data does that.
                self._pace.pressed(time.monotonic())
            self._take(diff, renderable)
            self._send_soon(diff)
        self.post_display_hook()

    def _take(self, diff: ScreenDiff, update: object) -> None:
        from rich.color import ColorSystem
        from textual._compositor import ChopsUpdate, LayoutUpdate

        assert isinstance(update, LayoutUpdate | ChopsUpdate)
        size = self.shown_size
        if (size.width, size.height) != diff.size:
            diff.resize(size.width, size.height)
        diff.take(update, self.console._color_system or ColorSystem.TRUECOLOR)

    def _send_soon(self, diff: ScreenDiff) -> None:
        """Send what differs, or come back when it may be sent."""
        now_s = time.monotonic()
        wait_s = self._pace.wait_s(now_s, busy=self.output_busy)
        if wait_s > 0:
            if self._frame_due is None:
                self._frame_due = self.set_timer(wait_s, self._send_held)
            return
        if self._send(diff):
            self._pace.sent(now_s)

    def _send_held(self) -> None:
        self._frame_due = None
        # The timer may end while the screens are being taken down.
        shown = bool(self.screen_stack) and not self._closed
        if self._diff is not None and self._diff.pending and shown:
            self._send_soon(self._diff)

    def _send(self, diff: ScreenDiff) -> bool:
        """Write one frame; False where nothing differs, and nothing is written."""
        cells = diff.send()
        place: Offset = self.screen.outer_size.clamp_offset(self.cursor_position)
        if (not cells and place == self._previous_cursor_position) or self._driver is None:
            return False
        self._previous_cursor_position = place
        cells += f"\x1b[{place.y + 1};{place.x + 1}H" if place != (0, 0) else "\x1b[H"
        if self._sync_available:
            cells = f"{SYNC_START}{cells}{SYNC_END}"
            if self._under_way.sent(len(cells.encode()), time.monotonic()):
                cells += QUESTION
        # One write, so that the frame is one entry of the writer's queue.
        self._driver.write(cells)
        self._driver.flush()
        return True
