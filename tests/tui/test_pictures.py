"""Screens as SVG pictures: colours and styles, which the golden frames in plain text do not show.

After an intended change, write them anew with KSHUNT_REWRITE_FRAMES=1 and look at them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kshunt.tui.text.glyphs import ASCII, UNICODE
from tests.support.tui.app import FRAMES, REWRITE, Shown, dashboard
from tests.support.tui.cluster import eventful

PICTURES = FRAMES / "pictures"
TALL = (120, 40)


def check_picture(name: str, shown: Shown) -> None:
    """Compare the screen with the picture of that name."""
    path = PICTURES / f"{name}.svg"
    drawn = normal(shown.app.export_screenshot(title="kshunt", simplify=True))
    if REWRITE:
        PICTURES.mkdir(exist_ok=True)
        path.write_text(drawn, "utf-8")
    assert drawn == path.read_text("utf-8"), f"the screen is not as in {path.name}"


def normal(svg: str) -> str:
    """The picture without the ids that Rich makes of its content."""
    return re.sub(r"terminal-\d+-", "terminal-", svg)


@asynccontextmanager
async def at(
    folder: Path, view: str, theme: str = "", *, plain: bool = False
) -> AsyncIterator[Shown]:
    """The dashboard in a view and a theme."""
    glyphs = ASCII if plain else UNICODE
    async with dashboard(
        folder / "s", eventful(), theme=theme, plain=plain, glyphs=glyphs, start_view=view
    ) as shown:
        yield shown


@pytest.mark.parametrize(
    ("name", "view", "theme", "keys"),
    [
        ("overview", "overview", "midnight", ()),
        ("partitions", "partitions", "midnight", ("j", "j", "space")),
        ("partitions-daylight", "partitions", "daylight", ("f",)),
        ("brokers-contrast", "brokers", "contrast", ("j",)),
        ("throttles-mono", "throttles", "mono", ("j",)),
        ("operations", "operations", "midnight", ()),
        ("help", "partitions", "midnight", ("question_mark",)),
    ],
)
async def test_pictures(
    tmp_path: Path, name: str, view: str, theme: str, keys: tuple[str, ...]
) -> None:
    async with at(tmp_path, view, theme) as shown:
        await shown.press(*keys)
        check_picture(name, shown)


async def test_a_picture_in_sixteen_colours_and_ascii(tmp_path: Path) -> None:
    async with at(tmp_path, "partitions", plain=True) as shown:
        await shown.press("j")
        check_picture("partitions-ansi", shown)
        assert shown.frame().isascii()
