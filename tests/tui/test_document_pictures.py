"""Pictures for the documents: the maker takes what the screen shows, for readers everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.tui.actions.view_names import TITLES, VIEWS
from kshunt.tui.text.picture import portable
from tests.support.documents import gallery
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


@pytest.mark.slow
async def test_the_gallery_has_every_view_at_every_size(tmp_path: Path) -> None:
    async with ScriptedBackend(tmp_path / "s", eventful()) as backend:
        await gallery.take(backend.address, "drain", "Health", tmp_path)
    made = dict(taken(tmp_path))
    sizes = [f"{width}x{height}" for width, height in gallery.SIZES]
    assert set(made) == {f"drain.{view}.{size}" for view in VIEWS for size in sizes}
    assert all(ElementTree.fromstring(text).tag.endswith("svg") for text in made.values())
    assert len({*made.values()}) == len(made)


def test_the_page_of_the_gallery_has_what_was_made() -> None:
    made = [gallery.file_name("drain", view, gallery.SIZES[0]) for view in VIEWS]
    text = gallery.page([*made, "of-an-earlier-version.svg"])
    assert re.findall(r'<img src="([^"]*)"', text) == made
    assert re.findall("<h2>(.*)</h2>", text) == ["drain"]
    assert re.findall("<th>(.*)</th>", text) == [TITLES[view].full for view in VIEWS]


def test_the_gallery_names_the_scenarios_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="Scenarios: drain, "):
        gallery.main(["no-such"], tmp_path / "gallery")
    assert not (tmp_path / "gallery").exists()
    for name in gallery.SCENARIOS:
        assert load_scenario(name)


def test_each_run_of_words_has_its_own_place() -> None:
    """Programs that leave out leading blanks, or have narrower fonts, show columns all the same."""
    blank = "&#160;"
    signs = f"{blank * 3}one{blank}two{blank * 2}&lt;3{blank}⣿{blank}漢x"
    text = f'<text class="c" x="12.2" y="20" textLength="5" clip-path="url(#l)">{signs}</text>'
    drawn = portable(f"<svg><defs></defs>{text}</svg>")
    found = re.findall(r'x="([\d.]+)" y="20" textLength="([\d.]+)"[^>]*>([^<]*)</text>', drawn)
    cells = [(round(float(x) / 12.2), round(float(n) / 12.2), words) for x, n, words in found]
    assert cells == [(4, 7, f"one{blank}two"), (13, 2, "&lt;3"), (18, 3, "漢x")]
    assert drawn.count('clip-path="url(#l)"') == 3
    [dots] = re.findall(r'<use href="#dots-28ff" x="([\d.]+)"', drawn)
    assert round(float(dots) / 12.2) == 16


@pytest.mark.parametrize(("signs", "dots"), [("⣿", 8), ("⠁⠀", 1), ("a⡀b", 1)])
def test_dots_are_drawn_and_other_signs_are_text(signs: str, dots: int) -> None:
    svg = f'<svg><defs></defs><text class="c" x="0" y="20" textLength="5">{signs}</text></svg>'
    drawn = portable(svg)
    assert not re.search("[\u2800-\u28ff]", drawn)
    assert sum(shape.count("M") for shape in re.findall(r'd="([^"]*)"', drawn)) == dots
    assert len(re.findall("<use ", drawn)) == 1
