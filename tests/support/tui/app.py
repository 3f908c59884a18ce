"""The dashboard under test: started on a scripted backend, driven by keys, read as plain text."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.widgets import Input

from kshunt.tui.actions.view_names import PARTITIONS, TABLES
from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.question_parts import AskPart
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.grid.grid import Grid
from kshunt.tui.views.table_screen import TableScreen
from kshunt.tui.views.view_screen import ViewScreen
from tests.support.paths import ROOT
from tests.support.runs.examples import many
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster
from tests.support.tui.pilot import SparingApp, driven
from tests.support.waiting import wait_until_async

DEADLINE_S = 30.0
FRAME_S = 5.0
"""A frame that is not as expected by then will not be."""
RETRY_S = 0.1
"""Until it tries to reach its backend again; all the time, and no screen ever stands still."""
SIZES = {"80x24": (80, 24), "160x50": (160, 50)}
"""What the screens are looked at in, by the name of the size."""
FRAMES = ROOT / "tests" / "tui" / "frames"
REWRITE = os.environ.get("KSHUNT_REWRITE_FRAMES") == "1"
"""Set to write the golden frames anew; look at the difference before keeping it."""


class ManualTime:
    """A monotonic clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(repr=False)
class Shown:
    """A running dashboard, its backend, and the keys to drive it.

    It has no `repr`: asyncio asks for one of each task that it ends, with all that is in it.
    """

    app: KshuntApp
    pilot: Pilot[None]
    backend: ScriptedBackend
    time: ManualTime
    size: tuple[int, int] = field(default=(80, 24))

    @property
    def view(self) -> ViewScreen:
        """The view in sight, perhaps below a dialogue."""
        return self.app.view

    @property
    def grid(self) -> Grid:
        """The table in sight."""
        assert isinstance(self.view, TableScreen)
        return self.view.grid

    @property
    def said(self) -> str:
        """The message on the last line."""
        return self.view.key_bar.message

    @property
    def cursor(self) -> str:
        """The row under the cursor, in words."""
        return str(self.grid.cursor_key)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until their effect is on the screen."""
        for key in keys:
            await self.pilot.press(key)
            await self.until_shown()

    async def write(self, text: str) -> None:
        """Type into the field that has the focus."""
        names = {" ": "space", "/": "slash", ":": "colon", "-": "minus", ".": "full_stop"}
        names |= {",": "comma", "*": "asterisk", "_": "underscore", ">": "greater_than_sign"}
        await self.pilot.press(*(names.get(character, character) for character in text))
        await self.until_shown()

    async def publish(self, seconds: float = 1.0) -> None:
        """Let the cluster's time pass, and wait until the app shows it."""
        self.backend.publish(seconds)
        await self.until_shown()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that is not just the next frame."""
        await wait_until_async(condition, DEADLINE_S, what)
        await self.pilot.pause()

    async def until_shown(self) -> None:
        """Wait until what is shown is what the backend sent and the operator asked for."""
        if self.app.store.scene.live and not self._is_shown():
            await self.until(self._is_shown, "the newest snapshot is shown")

    def _is_shown(self) -> bool:
        store, view = self.app.store, self.app.current_mode
        job = store.jobs.get(view)
        if job is None or not self.app.store.scene.live:
            return job is not None
        newest = self.backend.snapshot.version
        return (
            job.snapshot.version == newest
            and job.query == store.queries[view]
            and (view not in TABLES or self.grid.table is store.tables[view])
        )

    async def dialog(self, kind: type[Any]) -> Any:
        """The dialogue of this kind, once it is open and what it asks was painted."""

        def there() -> bool:
            screen = self.app.screen
            return isinstance(screen, kind) and all(
                ask.was_painted for ask in screen.query(AskPart)
            )

        await self.until(there, f"{kind.__name__} is open")
        return self.app.screen

    async def closed(self) -> None:
        """Wait until no dialogue is open."""
        await self.until(lambda: self.app.screen is self.view, "the dialogue is closed")
        await self.until_shown()

    async def resize(self, width: int, height: int) -> None:
        """Another size of the terminal."""
        await self.pilot.resize_terminal(width, height)
        await self.until_shown()

    def frame(self) -> str:
        """What is on the screen, as plain text."""
        return frame(self.app)

    def lines(self) -> list[str]:
        """What is on the screen, line by line."""
        return self.frame().splitlines()


def frame(app: KshuntApp) -> str:
    """What is on the screen, as plain text without blanks at the ends of lines."""
    # A dialogue is painted on what lies behind it.
    visible_screen_stack.set(app._background_screens)
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


@asynccontextmanager
async def dashboard(
    socket: Path,
    cluster: ScriptedCluster,
    *,
    size: tuple[int, int] = (80, 24),
    app_class: type[KshuntApp] = SparingApp,
    **options: Any,
) -> AsyncIterator[Shown]:
    """The dashboard on a scripted backend, once its first table is shown."""
    time = ManualTime()
    async with ScriptedBackend(socket, cluster) as backend:
        # Every replica, so that a test finds the row that it looks for.
        options = {"start_view": PARTITIONS, "opens_on_all": True, **options}
        app = app_class(backend.address, now_s=time, retry_s=(RETRY_S,), **options)
        async with driven(app, size) as pilot:
            shown = Shown(app, pilot, backend, time, size)
            await shown.until(lambda: bool(app.store.jobs), "the first table is shown")
            await shown.until(lambda: app.store.scene.live, "live")
            await shown.until_shown()
            yield shown


async def press_at_random(
    shown: Shown, keys: Callable[[], Sequence[str]], strokes: int, seed: int
) -> None:
    """Press any of the keys that there are, over ticks, sizes and restarts of the backend.

    `strokes` is how often in continuous integration, see `tests.support.runs.examples`.

    Raises:
        AssertionError: it has ended, or something was changed.
    """
    chance = random.Random(seed)
    for _ in range(many(strokes)):
        await shown.pilot.press(chance.choice(keys()))
        match chance.randrange(10):
            case 0:
                shown.time.now += chance.randrange(20)
                shown.backend.publish()
            case 1:
                await shown.pilot.resize_terminal(chance.randrange(1, 170), chance.randrange(1, 60))
            case 2 if chance.random() < 0.3:
                await shown.backend.stop()
                await shown.backend.start()
            case _:
                pass
    assert shown.app.is_running
    assert shown.backend.changes == []


@asynccontextmanager
async def at_size(
    folder: Path, cluster: ScriptedCluster, size: str, **options: Any
) -> AsyncIterator[Shown]:
    """The dashboard in one of `SIZES`, once its plot is drawn where it has one."""
    async with dashboard(folder / "s", cluster, size=SIZES[size], **options) as shown:
        if size == "160x50":
            await plotted(shown)
        yield shown


async def plotted(shown: Shown) -> None:
    """Wait for the plot, where the screen has one."""
    await shown.until(lambda: "ago" in shown.lines()[-2], "the plot is drawn")


def named(name: str, shown: Shown) -> str:
    """A frame's name with its size."""
    return f"{name}-{shown.size[0]}x{shown.size[1]}"


async def threads_have_ended(before: Collection[threading.Thread]) -> None:
    """Wait until the dashboard's threads have ended, but for those of before."""

    def running() -> list[threading.Thread]:
        all_ = threading.enumerate()
        return [one for one in all_ if one.name.startswith("kshunt") and one not in before]

    await wait_until_async(lambda: not running(), DEADLINE_S, "the dashboard's threads have ended")


async def until_frame(shown: Shown, expected: str, what: str) -> None:
    """Wait until the screen shows this; otherwise fail with the lines that are different."""
    with suppress(AssertionError):
        await wait_until_async(lambda: shown.frame() == expected, FRAME_S, what)
    found = shown.frame()
    pair = expected.splitlines(), found.splitlines()
    assert found == expected, "\n".join(unified_diff(*pair, what, "shown", lineterm=""))


async def check_frame(name: str, shown: Shown) -> None:
    """Compare what is on the screen, once it has come to rest, with the golden frame."""
    path = FRAMES / f"{name}.txt"
    if REWRITE:
        await settled(shown)
        FRAMES.mkdir(exist_ok=True)
        path.write_text(shown.frame() + "\n", "utf-8")
    expected = path.read_text("utf-8")
    # A fact that is polled may come a moment later on a busy machine.
    await until_frame(shown, expected.removesuffix("\n"), path.name)


def plan_file(tmp_path: Path, moves: dict[tuple[str, int], list[int]]) -> Path:
    """A reassignment JSON file."""
    entries = [{"topic": t, "partition": p, "replicas": r} for (t, p), r in moves.items()]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


async def answer_form(shown: Shown, *values: str) -> None:
    """Fill in the form that is open, field by field."""
    form = await shown.dialog(WizardScreen)
    for place, value in enumerate(values):
        form.input(place).value = value
        await shown.pilot.press("enter")
        if place < len(values) - 1:
            await focused(shown, form.input(place + 1))


async def settled(shown: Shown) -> None:
    """Wait until the screen is as it was a moment before: it may be laid out more than once."""
    before = ""
    while (now := shown.frame()) != before:
        before = now
        await shown.pilot.pause()


async def at_step(shown: Shown, step: Step) -> WizardScreen:
    """The wizard that is open, once it has come so far and shows what belongs there."""
    wizard = await shown.dialog(WizardScreen)
    assert isinstance(wizard, WizardScreen)
    await shown.until(lambda: wizard.step is step and wizard.ready, f"it has come to {step.title}")
    await settled(shown)
    return wizard


async def go_through(shown: Shown) -> WizardScreen:
    """From the preview of a wizard, by way of the question, to its answer."""
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    await shown.pilot.press("y")
    return await at_step(shown, Step.WATCH)


async def focused(shown: Shown, entry: Input) -> None:
    """Wait until a field has the focus."""
    await shown.until(lambda: entry.has_focus, "the field has the focus")
