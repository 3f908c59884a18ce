"""An app that takes of its terminal only keys for the screen that its operator sees.

A terminal may be of any size, also of one in which nothing can be laid out. Keys may come faster
than the screens that the operator presses them for. So less than `LEAST` is never laid out: such a
terminal is told to grow, and its keys do nothing, since nobody sees what they would act upon. And
a key that was pressed at one screen, or before a question was painted, does nothing on the next.

Keys that come in one packet, as they do over a slow line, act in the order in which they were
pressed. Textual alone does not keep this order: a letter acts in the field that has the focus. But
Tab or Ctrl-U act only once they have come up to the app, after the letters behind them.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

from textual import events, on
from textual._time import get_time
from textual.errors import NoWidget
from textual.geometry import Size
from textual.message import Message

from kshunt.tui.terminal.diff_output import DiffApp
from kshunt.tui.text.fitting import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen
    from textual.widget import Widget

LEAST: Final = Size(20, 5)
"""In columns and lines: what is laid out at the least."""

GROW: Final = "kshunt: make the terminal larger"
"""All that a smaller terminal shows."""

ALWAYS: Final = "ctrl+q"
"""The one key of a terminal that is too small: it leaves."""


WAITS_S: Final = 0.5
"""How long a key waits at most for the one before it: the widget that had it may be gone."""

PAINTED_S: Final = 20.0
"""How long a key waits for a question that is being painted: a busy machine may take a while."""


class KeyDone(Message):
    """Follows a key up from where it acted: when this arrives, so has the key."""

    def __init__(self, where: Widget, rounds: int) -> None:
        super().__init__()
        self._where = where
        self.rounds = rounds

    def is_lost(self, in_sight: Screen[object]) -> bool:
        """Whether it cannot arrive: what it set out from is gone."""
        return not self._where.is_attached or self._where.screen is not in_sight


ROUNDS: Final = 3
"""Later ones follow what the key brought about: that a field was submitted, a form was filled."""


class InputApp(DiffApp):
    """An app that holds back keys that were pressed at another screen."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._terminal = LEAST
        self._pressed_at: WeakKeyDictionary[events.Key, Screen[object]] = WeakKeyDictionary()
        """Keys that are on their way, and the screen that was in sight as each was pressed."""
        self._asked_at_s: WeakKeyDictionary[Screen[Any], float] = WeakKeyDictionary()
        """When each screen's question was painted, by the clock of events."""
        self._paints_at_s: WeakKeyDictionary[Screen[Any], float] = WeakKeyDictionary()
        """When the newest frame of each screen was begun, by the same clock."""
        self._shown_at_s: WeakKeyDictionary[Widget, float] = WeakKeyDictionary()
        """When the first frame was begun that shows all of a question, by the same clock."""

        self._unpainted: WeakSet[Widget] = WeakSet()
        """Questions that are on their way to the terminal."""
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._current: KeyDone | None = None
        """Of the key that acts now."""

    @property
    def size(self) -> Size:
        """What is laid out: the terminal, or `LEAST`."""
        return grown(super().size)

    @property
    def shown_size(self) -> Size:
        """The part of the terminal that is painted."""
        laid_out, terminal = super().shown_size, self._terminal
        return Size(min(laid_out.width, terminal.width), min(laid_out.height, terminal.height))

    @property
    def too_small(self) -> bool:
        """Whether the terminal has no room for what is laid out."""
        return grown(self._terminal) != self._terminal

    async def on_event(self, event: events.Event) -> None:
        """Hold back keys for another screen, and sizes in which nothing can be laid out."""
        if isinstance(event, events.Resize):
            event = self._resized(event)
        elif isinstance(event, events.InputEvent | events.Paste) and self._held_back(event):
            event.stop()
            return
        elif isinstance(event, events.Paste) and not event.is_forwarded:
            # What was copied somewhere may hold what a terminal obeys.
            event = events.Paste("\n".join(map(printable, event.text.splitlines())))
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._in_order(event)
        else:
            await super().on_event(event)

    async def _in_order(self, event: events.Key | events.Paste) -> None:
        """Let it act once those before it have, and the question in sight is known to be there."""
        gone = self._current is None or self._current.is_lost(self.screen)
        if gone and not self._is_painting():
            await self._act(event)
        else:
            self._waiting.append(event)

    def _is_painting(self) -> bool:
        """Whether a question is on its way: a key can follow its frame before the app knows."""
        return any(one.is_attached and one.screen is self.screen for one in self._unpainted)

    async def _act(self, event: events.Key | events.Paste) -> None:
        await super().on_event(event)
        self._follow(ROUNDS)

    def _follow(self, rounds: int) -> None:
        where = self.focused or self.screen
        self._current = done = KeyDone(where, rounds)
        where.post_message(done)
        # Should it be lost on its way, it is taken for arrived.
        get_running_loop().call_later(WAITS_S, self.post_message, done)

    @on(KeyDone)
    async def _acted(self, done: KeyDone) -> None:
        if done is not self._current:
            return
        self._current = None
        if done.rounds > 1:
            self._follow(done.rounds - 1)
        await self._go_on()

    async def _go_on(self) -> None:
        """Let keys that waited act, as far as nothing holds them up."""
        while self._waiting and self._current is None and not self._is_painting():
            event = self._waiting.popleft()
            if not self._held_back(event):
                await self._act(event)

    def _resized(self, event: events.Resize) -> events.Resize:
        """The size that is laid out instead."""
        self._terminal = event.size
        size = grown(event.size)
        if size == self._size:
            # To Textual it is the same; the terminal shows what it likes until it is painted.
            self.redraw()
        return event if size == event.size else events.Resize(size, size)

    def _held_back(self, event: events.InputEvent | events.Paste) -> bool:
        if self.too_small:
            return not (isinstance(event, events.Key) and event.key == ALWAYS)
        return isinstance(event, events.Key) and self._late(event)

    def paints_question(self, question: Widget) -> None:
        """Keys wait until this question was painted, or is gone."""
        self._unpainted.add(question)
        self._shown_at_s.pop(question, None)
        get_running_loop().call_later(PAINTED_S, self._no_longer_painting, question)

    def question_was_painted(self, question: Widget) -> None:
        """Keys that were pressed before this moment agree to nothing on its screen."""
        # A key can follow its frame before anyone is told that the frame is there. Meanwhile more
        # frames can come: of the same question, and of a screen behind it.
        screen = question.screen
        newest_s = self._paints_at_s.get(screen, get_time())
        self._asked_at_s[screen] = self._shown_at_s.get(question, newest_s)
        self._no_longer_painting(question)

    def _no_longer_painting(self, question: Widget) -> None:
        self._unpainted.discard(question)
        self.call_later(self._go_on)

    def _late(self, key: events.Key) -> bool:
        """Whether a key was pressed at another screen, or before the question in sight was."""
        if not key.is_forwarded:
            self._pressed_at.setdefault(key, self.screen)
        if self._pressed_at.get(key, self.screen) is not self.screen:
            return True
        # It may have waited for the keys before it. Esc agrees to nothing.
        return key.key != "escape" and key.time < self._asked_at_s.get(self.screen, 0.0)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        self._paints_at_s[screen] = get_time()
        if self.too_small and self._diff is not None and renderable is not None:
            renderable = notice(self._terminal)
        super()._display(screen, renderable)
        self._note_questions(screen, self._paints_at_s[screen])

    def _send_held(self) -> None:
        begun_s = get_time()
        super()._send_held()
        if self.screen_stack:
            self._note_questions(self.screen, begun_s)

    def _note_questions(self, screen: Screen[object], begun_s: float) -> None:
        """Note which questions the frame shows that was begun then, unless it has to wait."""
        if self._frame_due is not None or self.too_small:
            return
        for question in self._unpainted:
            if is_whole(question, screen):
                self._shown_at_s.setdefault(question, begun_s)


def once_painted(question: Widget, note: Callable[[], None]) -> None:
    """Call `note` once the question was painted; keys from before agree to nothing on its screen.

    `question`: what asks, in an `InputApp`.
    """

    app = question.app
    assert isinstance(app, InputApp)

    def painted() -> None:
        note()
        app.question_was_painted(question)

    app.paints_question(question)
    question.call_after_refresh(painted)


def is_whole(question: Widget, screen: Screen[object]) -> bool:
    """Whether all of a question is laid out in sight; False if it is the screen itself."""
    if question is screen:
        return False
    try:
        place = screen.find_widget(question)
    except NoWidget:
        return False
    return place.region.area > 0 and place.visible_region == place.region


def grown(size: Size) -> Size:
    """A size in which everything can be laid out."""
    return Size(max(size.width, LEAST.width), max(size.height, LEAST.height))


def notice(size: Size) -> RenderableType:
    """What a terminal shows that is too small: as much of `GROW` as it holds."""
    from rich.segment import Segment
    from textual._compositor import LayoutUpdate
    from textual.strip import Strip

    width = max(size.width, 1)
    starts = range(0, size.height * width, width)
    lines = [Strip([Segment(GROW[start : start + width].ljust(width))]) for start in starts]
    return LayoutUpdate([[line] for line in lines], size.region)
