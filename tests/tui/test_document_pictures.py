"""Pictures for the documents: the maker takes what the screen shows, for readers everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kshunt.tui.text.picture import portable
from tests.support.documents.pictures import Picture, take
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import eventful


def taken(folder: Path) -> list[tuple[str, str]]:
    return [(path.stem, path.read_text()) for path in folder.glob("*.svg")]


async def test_a_picture_is_taken_once_the_screen_shows_what_it_is_about(tmp_path: Path) -> None:
    pictures = (Picture("", "Overview"), Picture("throttles", "Broker or topic", ("4",)))
    async with ScriptedBackend(tmp_path / "s", eventful()) as backend:
        await take(backend.address, pictures, tmp_path)
    [(name, text)] = taken(tmp_path)
    assert name == "throttles"
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "Broker" in text
    assert "@font-face" not in text


@pytest.mark.parametrize(("signs", "dots"), [("⣿", 8), ("⠁⠀", 1), ("a⡀b", 1)])
def test_dots_are_drawn_and_other_signs_are_text(signs: str, dots: int) -> None:
    svg = f'<svg><defs></defs><text class="c" x="0" y="20" textLength="5">{signs}</text></svg>'
    drawn = portable(svg)
    assert not re.search("[\u2800-\u28ff]", drawn)
    assert sum(shape.count("M") for shape in re.findall(r'd="([^"]*)"', drawn)) == dots
    assert len(re.findall("<use ", drawn)) == 1
