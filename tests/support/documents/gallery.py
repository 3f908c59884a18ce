"""Pictures of every view at several sizes: `python -m tests.support.documents.gallery`.

Goals
    A developer who changes a screen sees all of its forms on one page, with and without moves.
Constraints
    The pictures are in `docs/gallery`, for readers of the manual too. `pictures` makes those that
    its pages show.
Algorithm
    Each scenario is played as the demo plays it, until its overview shows what it is about. Then
    each view is shown at each size. Words on the command line choose scenarios.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from textual.pilot import Pilot

from kshunt.backend.cli.demo import run_demo
from kshunt.tui.actions.view_names import OVERVIEW, TITLES, VIEWS, number_key
from kshunt.tui.app import KshuntApp
from kshunt.tui.film.filming import is_shown
from kshunt.tui.text.picture import portable, screenshot
from tests.support.paths import ROOT
from tests.support.tui.app import frame
from tests.support.waiting import wait_until_async

FOLDER: Final = ROOT / "docs" / "gallery"
DEADLINE_S: Final = 120.0
SIZES: Final = ((80, 24), (120, 36), (200, 50))
BEGINS_AT: Final = (120, 36)
"""The size at which a scenario is awaited."""
SCENARIOS: Final = {
    "drain": r"last [1-9]\ds(.|\n)*done [1-9]\d",
    "throttle-too-low": r"throttle too low",
    "hot-broker": r"Nothing moves(.|\n)*MB/s to 2 topics",
    "rack-loss": r"[1-9] of 9 brokers",
    "orphan-throttles": r"[1-9]\d* orphan throttles",
}
"""What the overview of each shows once pictures can be taken."""


def main(chosen: Sequence[str], folder: Path = FOLDER) -> None:
    """Make the pictures of these scenarios, or of all, and the page that shows them.

    Raises:
        SystemExit: there is no such scenario.
    """
    if unknown := [name for name in chosen if name not in SCENARIOS]:
        raise SystemExit(f"There is no {', '.join(unknown)}. Scenarios: {', '.join(SCENARIOS)}.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen or SCENARIOS:
        with TemporaryDirectory() as state:
            # What an earlier run remembers of the same cluster would be in the pictures.
            os.environ["XDG_STATE_HOME"] = state
            run_demo(name, 0, lambda: None, partial(_show, name, folder))
    index = folder / "index.html"
    index.write_text(page(sorted(path.name for path in folder.glob("*.svg"))), "utf-8")
    sys.stdout.write(f"{index}\n")


def _show(name: str, folder: Path, address: str, _serve_again: Callable[[], object]) -> int:
    asyncio.run(take(address, name, SCENARIOS[name], folder))
    return 0


async def take(address: str, name: str, begins: str, folder: Path) -> None:
    """Take a picture of every view at every size, once the overview shows `begins`.

    Raises:
        AssertionError: it does not, or a view is not shown in time.
    """
    app = KshuntApp(address, start_view=OVERVIEW)
    async with app.run_test(size=BEGINS_AT) as pilot:
        await _until(app, lambda: re.search(begins, frame(app)), begins)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            for view in VIEWS:
                await _go(app, pilot, view)
                path = folder / file_name(name, view, size)
                path.write_text(portable(screenshot(app)), "utf-8")


async def _go(app: KshuntApp, pilot: Pilot[None], view: str) -> None:
    await pilot.press(number_key(view))
    await pilot.pause()
    await _until(app, lambda: app.current_mode == view and is_shown(app), f"the view {view}")


async def _until(app: KshuntApp, condition: Callable[[], object], what: str) -> None:
    try:
        await wait_until_async(condition, DEADLINE_S, what)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{frame(app)}") from None


def file_name(scenario: str, view: str, size: tuple[int, int]) -> str:
    """Of one picture."""
    return f"{scenario}.{view}.{size[0]}x{size[1]}.svg"


def page(names: Iterable[str]) -> str:
    """The page that shows pictures: a part a scenario, a row a view, a column a size."""
    there = frozenset(names)
    parts = [part for name in SCENARIOS if (part := _part(name, there))]
    return _PAGE.format("\n".join(parts))


def _part(scenario: str, there: frozenset[str]) -> str:
    rows = []
    for view in VIEWS:
        files = {size: file_name(scenario, view, size) for size in SIZES}
        cells = "".join(_cell(size, file) for size, file in files.items() if file in there)
        if cells:
            rows.append(f"<tr><th>{html.escape(TITLES[view].full)}</th>{cells}</tr>")
    body = "\n".join(rows)
    return f"<h2>{html.escape(scenario)}</h2>\n<table>\n{body}\n</table>" if rows else ""


def _cell(size: tuple[int, int], file: str) -> str:
    words = f"{size[0]} x {size[1]}"
    image = f'<img src="{file}" alt="{words}" loading="lazy">'
    return f'<td><a href="{file}">{image}</a><br>{words}</td>'


_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>kshunt: every view at every size</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
td {{ vertical-align: top; width: 30%; }}
img {{ width: 100%; }}
</style>
<h1>Every view at every size</h1>
{}
</html>
"""

if __name__ == "__main__":
    main(sys.argv[1:])
