"""A recording, played through a dashboard without a terminal: its frames, and pictures of them.

Goals
    What is shown is what the dashboard shows: the same code draws it. It needs no terminal.
Algorithm
    The dashboard runs headless on the recording. It is sent to one moment after another, and each
    frame is taken once everything on the screen belongs to its moment. So a slow machine takes
    longer, and writes the same film.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from kshunt.backend.domain.text.deadlines import HINT, deadline_ms
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.tui.actions.view_names import TABLES
from kshunt.tui.film.cast import Cast
from kshunt.tui.film.moving_picture import MovingPicture
from kshunt.tui.grid.plot_panel import PlotPanel
from kshunt.tui.text.picture import portable, screenshot
from kshunt.tui.views.table_screen import TableScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from kshunt.tui.app import KshuntApp
    from kshunt.tui.recorder.reader import RecordingReader

CONSOLE: Final = Console(color_system="truecolor", force_terminal=True)
"""A player has all colours, whatever the terminal of this process has."""
FRAMES_PER_S: Final = 4
"""Of the film."""
FRAMES_MOST: Final = 20_000
PICTURE_FRAMES_MOST: Final = 400
"""A browser keeps each frame of a moving picture in memory."""
LAST_FRAME_S: Final = 3.0
"""How long a moving picture rests before it begins again."""
ARRIVE_S: Final = 30.0
"""How long the screen may take to show a moment."""


@dataclass(frozen=True, slots=True)
class Film:
    """How a recording is played: sizes in cells, moments in the recording's time."""

    size: tuple[int, int]
    first_ms: int
    last_ms: int
    speed: float

    @property
    def duration_s(self) -> float:
        """How long the film takes."""
        return (self.last_ms - self.first_ms) / 1000 / self.speed

    def moments(self, most: int = FRAMES_MOST) -> Sequence[tuple[float, int]]:
        """Each frame: when it is shown, and the moment of the recording. The last one is the end.

        Raises:
            BadInput: there are more than `most`.
        """
        count = int(self.duration_s * FRAMES_PER_S)
        if count > most:
            least = math.ceil(1000 * self.speed * count / most) / 1000
            raise BadInput(
                f"At this speed the film has {count:,} frames; the maximum is {most:,}.",
                advice=f"Give --speed {least:g} or more.",
            )
        step_ms = 1000 * self.speed / FRAMES_PER_S
        frames = [
            (number / FRAMES_PER_S, self.first_ms + round(number * step_ms))
            for number in range(count + 1)
        ]
        at_end = frames[-1][1] >= self.last_ms
        return frames if at_end else [*frames, (self.duration_s, self.last_ms)]


def film_cast(make: Callable[[], KshuntApp], film: Film, *, title: str, began_s: int) -> str:
    """Play a recording in the dashboard that `make` makes; the text of its cast.

    Raises:
        KshuntError: the recording cannot be read, or the screen does not show a moment in time.
    """
    cast = Cast(film.size, title=title, began_s=began_s)
    _play(make, film, film.moments(), lambda at_s, app: cast.add(at_s, _lines(app)))
    return cast.text(film.duration_s)


def film_moving_picture(make: Callable[[], KshuntApp], film: Film) -> str:
    """Play a recording in the dashboard that `make` makes; an SVG that plays it in a loop.

    Raises:
        KshuntError: as `film_cast`.
    """
    picture = MovingPicture()
    moments = film.moments(PICTURE_FRAMES_MOST)
    _play(make, film, moments, lambda at_s, app: picture.add(at_s, screenshot(app)))
    return picture.text(film.duration_s + LAST_FRAME_S)


def _play(
    make: Callable[[], KshuntApp],
    film: Film,
    moments: Sequence[tuple[float, int]],
    take: Callable[[float, KshuntApp], None],
) -> None:
    """Show one moment after another, and take each frame.

    Raises:
        KshuntError: the recording cannot be read, or the screen does not show a moment in time.
    """
    app = make()

    async def play(pilot: Pilot[Any]) -> None:
        for at_s, moment_ms in moments:
            # The last frame stays: time does not continue from it.
            speed = film.speed if moment_ms < film.last_ms else 0.0
            await _show(app, pilot, moment_ms, speed)
            take(at_s, app)

    _run(app, film.size, play)


def film_picture(app: KshuntApp, size: tuple[int, int], moment_ms: int) -> str:
    """Show one moment of a recording; an SVG of the screen.

    Raises:
        KshuntError: as `film_cast`.
    """
    taken: list[str] = []

    async def take(pilot: Pilot[Any]) -> None:
        await _show(app, pilot, moment_ms)
        taken.append(portable(screenshot(app)))

    _run(app, size, take)
    return taken[0]


def moment_of(text: str, reel: RecordingReader) -> int:
    """The moment of a recording that a text names: a duration from its beginning, or a time of day.

    Raises:
        BadInput: it is no time, or the recording has ended by then.
    """
    began_ms = reel.wall_ms(reel.first_ms)
    try:
        moment_ms = reel.first_ms + deadline_ms(text, began_ms, None) - began_ms
    except BadInput:
        raise BadInput(f"--at '{text}' is not a time.", advice=f"Give {HINT}.") from None
    if moment_ms > reel.last_ms:
        length_s = (reel.last_ms - reel.first_ms) // 1000
        raise BadInput(f"The recording ends before '{text}'.", advice=f"It lasts {length_s} s.")
    return moment_ms


def _run(
    app: KshuntApp, size: tuple[int, int], pilot: Callable[[Pilot[Any]], Awaitable[None]]
) -> None:
    """Run the dashboard without a terminal until `pilot` has done its work."""

    async def then_leave(one: Pilot[Any]) -> None:
        try:
            await pilot(one)
        finally:
            app.exit()

    app.run(headless=True, size=size, auto_pilot=then_leave)


async def _show(app: KshuntApp, pilot: Pilot[Any], moment_ms: int, speed: float = 0.0) -> None:
    """Go to a moment, and wait until the screen shows it.

    Raises:
        KshuntError: it cannot be read, or is not shown in time.
    """
    give_up_s = time.monotonic() + ARRIVE_S
    await _until(lambda: app.playback.measured, pilot, give_up_s)
    await app.playback.show(moment_ms, speed)
    await _until(lambda: is_shown(app), pilot, give_up_s)
    await pilot.pause()


async def _until(condition: Callable[[], bool], pilot: Pilot[Any], give_up_s: float) -> None:
    while not condition():
        if time.monotonic() > give_up_s:
            raise KshuntError(
                f"The dashboard did not show a moment of the recording within {ARRIVE_S:g} s."
            )
        await pilot.pause()
        # The table is computed on a thread.
        await asyncio.sleep(0.005)


def is_shown(app: KshuntApp) -> bool:
    """Whether everything on the screen belongs to the moment of the recording."""
    store, view, screen = app.store, app.current_mode, app.view
    moving = any(worker.group == "playback" and worker.is_running for worker in app.workers)
    job, scene = store.jobs.get(view), store.scene
    if moving or not app.playback.arrived or job is None:
        return False
    if job.snapshot is not scene.snapshot or job.operations != scene.operations:
        return False
    if view in TABLES and not (
        isinstance(screen, TableScreen) and screen.grid.table is store.tables[view]
    ):
        return False
    return all(panel.is_drawn for panel in screen.query(PlotPanel))


def _lines(app: KshuntApp) -> list[str]:
    """What is on the screen, with the codes of its colours."""
    return [strip.render(CONSOLE) for strip in app.screen._compositor.render_strips()]
