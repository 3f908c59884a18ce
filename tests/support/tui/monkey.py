"""A monkey at the dashboard: what it does, quickly one after the other, and what must hold."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import traceback
from dataclasses import dataclass, field, replace
from typing import Any, Final

from textual import events
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.widgets import Button, Input

from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.question_parts import AskPart
from kshunt.tui.changes.wizard.screen import WizardScreen
from tests.support.tui.app import DEADLINE_S, Shown
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import HOSTILE
from tests.support.waiting import wait_until_async

OBEYED: Final = ("cfgx", "boomer", "moping", "dripping", "behindmost")
"""What the cluster's hostile texts look like where they are taken for markup."""

OURS: Final = re.compile(r"\x1b\[[0-9;]*[mHC]|\x1b\]22;[a-z-]+\x07|\x1b\]52;c;[\w+/=]*\x07|^\x07$")
"""What a terminal is told: colours, places, the pointer's shape, what was copied, a bell."""

FOREIGN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What tells a terminal anything else."""

ROUNDS: Final = 50
"""Turns that everybody is given before the clock is looked at."""

IDLE_S: Final = 30.0
"""In which a message is dealt with, however busy the machine is."""

BACKEND_ROUNDS: Final = 500
"""Turns in which the backend may answer."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """One thing that happens."""

    kind: str
    """`keys`, `paste`, `click`, `double`, `drag`, `resize`, `pinch`, `on`, `out`, or what befalls
    the backend."""
    keys: tuple[str, ...] = ()
    """More than one is typed ahead: none waits for what the one before it does."""
    size: tuple[int, int] = (80, 24)
    """Of the terminal; where it is clicked, by column and line."""


class WatchedDriver(HeadlessDriver):
    """A terminal that shows nothing, and notes what only the cluster's texts can have told it."""

    foreign = ""

    @property
    def is_headless(self) -> bool:
        """Not headless: what is painted is sent."""
        return False

    def write(self, data: str) -> None:
        """Look at what is sent."""
        if FOREIGN.search(OURS.sub("", data)):
            self.foreign = data


async def idle(app: App[None]) -> None:
    """Wait until every message was dealt with; threads and timers are not waited for."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
        if not _busy(app):
            return
    try:
        await wait_until_async(lambda: not _busy(app), IDLE_S, "every message is dealt with")
    except AssertionError as late:
        late.add_note(f"busy: {[pump for pump in (app, *app._registry) if _waiting(pump)]}")
        raise


def _busy(app: App[None]) -> bool:
    """Whether a message waits, or is being dealt with."""
    if app._exception is not None:
        return False
    return any(_waiting(pump) for pump in (app, *app._registry))


def _waiting(pump: Any) -> bool:
    """Whether a message waits for this one, or it is dealing with one."""
    if pump._closed or not pump._running:
        return False
    queue = pump._message_queue
    # Who waits for a message is not dealing with one.
    return bool(queue.values) or not queue.ready_event._waiters


@dataclass
class Monkey:
    """Presses, breaks, resizes; and knows how often something was agreed to."""

    shown: Shown
    agreed: int = field(default=0, init=False)
    """Changes that may have been agreed to at a question that was in sight."""

    async def do(self, stroke: Stroke) -> None:
        """One stroke, and everything that it leads to immediately."""
        match stroke.kind:
            case "keys":
                self._press(stroke.keys)
            case "on":
                await self._go_on(stroke.keys)
            case "out":
                self._press(("escape",) * 3)
                if self.shown.app.playback.past:
                    self._press(("T",))
            case "paste":
                self._post(events.Paste(f"{HOSTILE}\x1b[2J\u202e\ny"))
            case "click":
                self._click(*stroke.size)
            case "double":
                self._click(*stroke.size)
                self._click(*stroke.size)
            case "drag":
                self._drag(*stroke.size)
            case "resize":
                await self.resize(stroke.size)
            case "pinch":
                await self._pinch(stroke)
            case fault:
                await self._befall(fault)
        await idle(self.shown.app)

    # Keys

    def _post(self, event: events.Event) -> None:
        """As a terminal's driver does, without the pilot's pauses for the eye."""
        event.set_sender(self.shown.app)
        self.shown.app.post_message(event)

    def _press(self, keys: tuple[str, ...]) -> None:
        self.agreed += self._may_agree(keys)
        for key in keys:
            self._post(events.Key(key, key if len(key) == 1 else None))

    async def _go_on(self, keys: tuple[str, ...]) -> None:
        """What an operator who wants something changed does next, and sees before they continue."""
        app = self.shown.app
        question, focused, before = self.question(), app.focused, (app.screen, self._step())
        if app.screen is app.view:
            self._press(keys)
        elif question is None:
            if isinstance(focused, Input) and not focused.value:
                self._post(events.Paste("plan.json"))
            self._press(("enter",))
        elif question.intent.typed:
            self._post(events.Paste(question.intent.typed[0]))
            self.agreed += 1
            self._post(events.Key("enter", None))
        else:
            self._press(("y",))
        for _ in range(BACKEND_ROUNDS):
            if (app.screen, self._step()) != before:
                return
            await asyncio.sleep(0)

    def _step(self) -> Step | None:
        """Where the wizard in sight is."""
        screen = self.shown.app.screen
        return screen.step if isinstance(screen, WizardScreen) else None

    def _click(self, x: int, y: int) -> None:
        x, y = self._inside(x, y)
        self.agreed += self.question() is not None
        self._report(events.MouseDown, x, y)
        self._report(events.MouseUp, x, y)

    def _drag(self, x: int, y: int) -> None:
        """From a place towards the middle, with the button down."""
        width, height = self.shown.app.size
        x, y = self._inside(x, y)
        self.agreed += self.question() is not None
        self._report(events.MouseDown, x, y)
        for step in (1, 2):
            self._report(events.MouseMove, (x + step * width) // (1 + 2 * step), y)
            self._report(events.MouseMove, x, (y + step * height) // (1 + 2 * step))
        self._report(events.MouseUp, x, (y + height) // 3)

    def _inside(self, x: int, y: int) -> tuple[int, int]:
        width, height = self.shown.app.size
        return min(x, width - 1), min(y, height - 1)

    def _report(self, kind: type[events.MouseEvent], x: int, y: int) -> None:
        """What a terminal reports about its mouse."""
        self._post(kind(None, x, y, 0, 0, 1, False, False, False, x, y))

    def question(self) -> AskPart | None:
        """The question in sight."""
        screen = self.shown.app.screen
        asking = isinstance(screen, ConfirmScreen) or (
            isinstance(screen, WizardScreen) and screen.step is Step.CONFIRM
        )
        return next(iter(screen.query(AskPart)), None) if asking else None

    def _at_preview(self) -> bool:
        """Whether a wizard shows a preview that needs no name typed: `y` agrees there, too."""
        screen = self.shown.app.screen
        return (
            isinstance(screen, WizardScreen)
            and screen.step is Step.PREVIEW
            and screen.may_be_agreed_to
        )

    def _may_agree(self, keys: tuple[str, ...]) -> bool:
        """Whether these keys may agree to the question in sight."""
        question, focused = self.question(), self.shown.app.focused
        if question is None:
            return self._at_preview() and "y" in keys
        if len(keys) > 1:
            return not {"y", "enter", "space"}.isdisjoint(keys)
        match focused:
            case Input(id="typed", value=value):
                return keys == ("enter",) and value.strip() in question.intent.typed
            case Input():
                return False
            case Button(id="agree"):
                return keys in (("y",), ("enter",), ("space",))
            case _:
                return keys == ("y",)

    # Sizes

    async def resize(self, size: tuple[int, int]) -> None:
        """Another size of the terminal."""
        app = self.shown.app
        assert app._driver is not None
        app._driver._size = size
        self._post(events.Resize(Size(*size), Size(*size)))
        await idle(app)
        # Textual gathers sizes for a moment.
        gathered = lambda: app._resize_timer is None or app._exception  # noqa: E731
        await wait_until_async(gathered, DEADLINE_S, "the size is taken")

    async def _pinch(self, stroke: Stroke) -> None:
        """A terminal without room for anything, and back: keys do nothing meanwhile."""
        app = self.shown.app
        size, agreed = app.size, self.agreed
        await self.resize(stroke.size)
        self._press(stroke.keys)
        self.agreed = agreed
        await idle(app)
        await self.resize((size.width, size.height))

    # What befalls the backend

    async def _befall(self, fault: str) -> None:
        backend = self.shown.backend
        match fault:
            case "cut":
                await backend.stop()
            case "back" if not backend.socket.exists():
                await backend.start()
            case "refuse":
                backend.refuse = Problem(409, "Not [red]now[/red].", "Wait.")
            case "allow":
                backend.refuse = None
            case "hold" if backend.held is None:
                backend.held = asyncio.Event()
            case "release" if backend.held is not None:
                backend.held.set()
                backend.held = None
            case "shift":
                fingerprint = f"{backend.preview.fingerprint}'"
                backend.preview = replace(backend.preview, fingerprint=fingerprint)
            case "note":
                backend.cluster.note(OperationKind.ELECTION, HOSTILE, state=OperationState.RUNNING)
            case "alert":
                backend.alert(f"{HOSTILE}\x07")
            case "tick":
                self.shown.time.now += 1
                backend.publish()

    # What must hold

    def judge(self) -> None:
        """It lives, and nothing was changed that was not agreed to."""
        app = self.shown.app
        if app._exception is not None:
            raise app._exception
        assert app.is_running, "it died"
        assert app.return_code in (None, 0)
        assert isinstance(app._driver, WatchedDriver)
        assert app._driver.foreign == "", f"the terminal is told {app._driver.foreign[:80]!r}"
        changes = self.shown.backend.changes
        assert len(changes) <= self.agreed, f"{len(changes)} changes, {self.agreed} agreed to"

    def read(self) -> None:
        """Nothing on the screen was obeyed that was only to be shown."""
        text = self.shown.frame()
        assert not FOREIGN.search(text.replace("\n", "")), "control characters"
        assert not [words for words in OBEYED if words in text], "markup of a name was obeyed"

    async def recover(self) -> None:
        """Whatever it went through, it can be led back to what is live."""
        for fault in ("back", "allow", "release"):
            await self._befall(fault)
        await self.resize((80, 24))
        await wait_until_async(self._closed, DEADLINE_S, "every dialogue is closed")
        newest = self.shown.backend.publish().version
        try:
            await wait_until_async(
                lambda: self._is_live(newest), IDLE_S, "the newest snapshot is shown"
            )
        except AssertionError as late:
            late.add_note(self._stands(newest))
            raise
        self.judge()
        self.read()

    def _stands(self, newest: int) -> str:
        """What the dashboard has, and where each thread is."""
        store = self.shown.app.store
        has = "nothing" if store.scene.snapshot is None else store.scene.snapshot.version
        lines = [f"shown is {has} of {newest}; {store.scene.connection}"]
        for thread in threading.enumerate():
            stack = traceback.format_stack(sys._current_frames().get(thread.ident or 0))[-4:]
            lines.append(f"{thread.name}:\n{''.join(stack)}")
        return "\n".join(lines)

    async def _closed(self) -> bool:
        app = self.shown.app
        self.judge()
        if app.screen is app.view:
            return not app.changing
        self._press(("escape",))
        await idle(app)
        return False

    async def _is_live(self, version: int) -> bool:
        self.judge()
        if self.shown.app.playback.past:
            # A thread may have been on its way there until this moment. A filter takes letters.
            if isinstance(self.shown.app.focused, Input):
                self._press(("escape",))
            self._press(("T",))
            await idle(self.shown.app)
        store = self.shown.app.store
        shown = store.scene.snapshot is not None and store.scene.snapshot.version == version
        return shown and store.scene.live
