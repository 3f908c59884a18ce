"""Pictures of the real dashboard for the documents: `python -m tests.support.documents.pictures`.

Goals
    Each picture of docs/pictures is a screen of the dashboard on a scenario of `kshunt demo`.
Constraints
    A picture loads nothing from elsewhere: readers without a network see it too.
Algorithm
    A scenario is played as the demo plays it. The dashboard runs without a terminal on its backend,
    and keys are pressed until the screen shows what the picture is about. Words on the command line
    choose scenarios; without them all pictures are made.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from textual.pilot import Pilot

from kshunt.backend.cli.demo import run_demo
from kshunt.tui.app import KshuntApp
from kshunt.tui.film.filming import FRAMES_PER_S
from kshunt.tui.film.moving_picture import MovingPicture
from kshunt.tui.text.picture import portable, screenshot
from tests.support.paths import ROOT
from tests.support.tui.app import frame
from tests.support.waiting import wait_until_async

FOLDER: Final = ROOT / "docs" / "pictures"
DEADLINE_S: Final = 120.0
SIZE: Final = (104, 30)
LARGE: Final = (200, 50)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: how the dashboard gets there from the picture before."""

    name: str
    """Empty for a step on the way."""
    shows: str
    """A regular expression that the screen matches once the picture can be taken."""
    keys: tuple[str, ...] = ()
    typed: str = ""
    """Text that is typed after the keys."""
    then: tuple[str, ...] = ()
    """Keys after that."""
    size: tuple[int, int] = SIZE
    """Cells of the terminal."""


@dataclass(frozen=True, slots=True)
class Scene(Picture):
    """A part of a moving picture."""

    lasts_s: float = 2.0


PICTURES: Final = {
    "expand": (Picture("overview", r"left(.|\n)*last 3\ds"),),
    "drain": (
        Picture("cockpit", r"last [1-9]\ds(.|\n)*done [1-9]\d(.|\n)*ended their moves", size=LARGE),
        Picture("flow-map", r"sends +From(.|\n)*gets", ("tab", "tab", "z"), size=LARGE),
        Picture("overview-middle", r"more brokers, z shows", ("escape",), size=(120, 36)),
        Picture("brokers", r"  7 +250/0(.|\n)*MB", ("3",)),
        Picture("who-feeds-whom", r"MB/s|\d+M", ("m",)),
        Picture("topics", r"Retention(.|\n)*more brokers", ("7", "j", "j"), size=(120, 36)),
        Picture("", r"Topic +Part", ("2",)),
        Picture("columns", r"\[\+\] Size", ("V", "space", "end", "k", "k", "k", "plus")),
    ),
    "throttle-too-low": (
        Picture("", r"throttle too low\. /stuck"),
        Picture("", r"/stuck", ("2", "slash"), "stuck", ("enter",)),
        Picture("why-stuck", r"needs at(.|\n)*least", ("enter",)),
        Picture(
            "what-if", r"enough for all", ("escape", "4", "A", "equals_sign"), "35MB/s", ("enter",)
        ),
        Picture("preview", r"Validated, nothing changed yet: all 5", ("enter",)),
    ),
    "throttle-too-low fixed": (
        Scene(
            "fixed-in-two-keys",
            r"never: leader throttle(.|\n)*16 stuck: throttle too low",
            lasts_s=4,
        ),
        Scene("fixed-in-two-keys", r"Set the throttle \(y\)", ("F",), lasts_s=4),
        Scene("fixed-in-two-keys", r"done ≈", ("y",), lasts_s=3),
        Scene("fixed-in-two-keys", r"done ≈", ("escape",), lasts_s=8),
    ),
    "hot-broker": (
        Picture("cockpit-idle", r"MB/s to 2 topics(.|\n)*[1-9]\ds ago", size=LARGE),
        Picture("", r"What is the goal", ("P",)),
        Picture("", r"Fill up to(.|\n)*of each disk", ("enter",)),
        Picture("", r"To drain broker 1", ("space", "enter")),
        Picture("plan", r"\[Partitions", ("tab",)),
        Picture("", r"Deadline", ("enter",)),
        Picture("", r"Takes +- +- +\d+[hm]", ("enter", "enter")),
        Picture("rehearsal", r"\[100 MB/s\](.|\n)*┤", ("l", "l")),
    ),
}
"""The pictures of each scenario, in the order in which they are taken.

A second word tells runs of one scenario apart.
"""


def main(chosen: Iterable[str]) -> None:
    """Make the pictures of these scenarios, or of all."""
    for scenario in chosen or PICTURES:
        with TemporaryDirectory() as state:
            # What an earlier run remembers of the same cluster would be in the picture.
            os.environ["XDG_STATE_HOME"] = state
            name, _, _ = scenario.partition(" ")
            run_demo(name, 0, lambda: None, partial(_show, PICTURES[scenario]))


def _show(pictures: Iterable[Picture], address: str, _serve_again: Callable[[], object]) -> int:
    asyncio.run(take(address, pictures, FOLDER))
    return 0


async def take(address: str, pictures: Iterable[Picture], folder: Path) -> None:
    """Take these pictures one after another.

    Raises:
        AssertionError: the screen does not show what a picture is about in time.
    """
    app = KshuntApp(address)
    films: dict[str, _Film] = {}
    async with app.run_test(size=SIZE) as pilot:
        await wait_until_async(lambda: bool(app.store.jobs), DEADLINE_S, "the first table")
        for picture in pictures:
            await _arrange(app, pilot, picture)
            if isinstance(picture, Scene):
                await films.setdefault(picture.name, _Film()).take(app, pilot, picture.lasts_s)
            elif picture.name:
                (folder / f"{picture.name}.svg").write_text(portable(screenshot(app)), "utf-8")
    for name, film in films.items():
        (folder / f"{name}.svg").write_text(film.moving.text(film.at_s), "utf-8")


def _is_over(at_s: float) -> bool:
    return time.monotonic() >= at_s


class _Film:
    """A moving picture of the running dashboard."""

    def __init__(self) -> None:
        self.moving = MovingPicture()
        self.at_s = 0.0
        """How long it is by now."""

    async def take(self, app: KshuntApp, pilot: Pilot[None], lasts_s: float) -> None:
        """Take pictures of what is shown for that time."""
        began_s = time.monotonic()
        for number in range(int(lasts_s * FRAMES_PER_S)):
            next_s = began_s + number / FRAMES_PER_S
            await wait_until_async(partial(_is_over, next_s), DEADLINE_S, "a frame")
            await pilot.pause()
            self.moving.add(self.at_s + number / FRAMES_PER_S, screenshot(app))
        self.at_s += lasts_s


async def _arrange(app: KshuntApp, pilot: Pilot[None], picture: Picture) -> None:
    await pilot.resize_terminal(*picture.size)
    for key in (*picture.keys, *map(_key, picture.typed), *picture.then):
        await pilot.press(key)
        await pilot.pause()
    seen = re.compile(picture.shows)
    try:
        await wait_until_async(lambda: seen.search(frame(app)), DEADLINE_S, picture.shows)
    except AssertionError as error:
        raise AssertionError(f"{picture.name}: {error}\n{frame(app)}") from None


def _key(character: str) -> str:
    return {"/": "slash"}.get(character, character)


if __name__ == "__main__":
    main(sys.argv[1:])
