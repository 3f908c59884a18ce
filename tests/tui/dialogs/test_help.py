"""The help: which keys there are, and finding one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kshunt.tui.dialogs.help import HelpRow, HelpScreen, matches
from tests.support.tui.app import Shown, check_frame, dashboard, named
from tests.support.tui.cluster import incident


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The help of the partitions view, at 80x24."""
    async with dashboard(tmp_path / "s", incident()) as running:
        await running.pilot.press("question_mark")
        await running.dialog(HelpScreen)
        yield running


def rows(shown: Shown) -> list[str]:
    """What is listed between the frame's sides, without the title and the hint."""
    inner = [line[3:77].strip(" │") for line in shown.lines()[1:-1]]
    return [line for line in inner if line]


async def find(shown: Shown, text: str) -> None:
    """Type into the search."""
    await shown.pilot.press("slash")
    await shown.write(text)


async def test_a_search_shows_what_has_every_word(shown: Shown) -> None:
    await find(shown, "ROWS mark")
    found = shown.frame()
    assert "Mark or unmark the row" in found
    assert "Start a reassignment" not in found
    assert "Views" not in found, "a group without rows has no title"
    assert "Enter keeps these, Esc shows all" in found
    await check_frame(named("help-search", shown), shown)


async def test_a_key_finds_itself_and_not_every_word_with_its_letter(shown: Shown) -> None:
    await find(shown, "C")
    assert "Cancels every partition that moves" in shown.frame()
    assert "Cancels the marked partitions" not in shown.frame()
    await shown.pilot.press("backspace", "c")
    await shown.until(lambda: "Cancels the marked partitions" in shown.frame(), "it is found")
    assert "Cancels every partition that moves" not in shown.frame()


async def test_a_key_is_found_by_its_name(shown: Shown) -> None:
    await find(shown, "ctrl-t")
    assert "Choose a theme" in shown.frame()


async def test_escape_shows_all_again_and_then_closes(shown: Shown) -> None:
    before = shown.frame()
    await find(shown, "theme")
    await shown.pilot.press("escape")
    assert isinstance(shown.app.screen, HelpScreen)
    assert shown.frame() == before
    await shown.pilot.press("escape")
    await shown.closed()


async def test_what_was_found_can_be_kept_and_read(shown: Shown) -> None:
    await find(shown, "the")
    await shown.pilot.press("enter")
    assert "/ changes it, Esc shows all" in shown.frame()
    first = rows(shown)
    await shown.pilot.press("j", "j")
    assert rows(shown) != first, "the keys scroll and are not typed"
    await shown.pilot.press("slash", *["backspace"] * 3, "enter")
    assert "/ finds a key" in shown.frame(), "an empty search is none"
    await find(shown, "throttle")
    await shown.pilot.press("enter", "q")
    await shown.closed()


async def test_that_nothing_matches_is_said(shown: Shown) -> None:
    await find(shown, "teleport")
    assert rows(shown)[1:] == ["No key matches 'teleport'.", "Esc shows all"]
    await check_frame(named("help-nothing", shown), shown)
    await shown.pilot.press("escape")
    assert "No key matches" not in shown.frame()


async def test_the_hint_stays_in_sight_at_any_size(shown: Shown) -> None:
    for width, height in ((80, 24), (40, 10), (200, 60)):
        await shown.pilot.resize_terminal(width, height)
        await shown.pilot.pause()
        assert "/ finds a key" in shown.frame(), (width, height)


def test_words_match_in_any_order_and_case() -> None:
    row = HelpRow(("Space",), "Mark. Mark or unmark the row.")
    assert matches(row, "row MARK", by_key=False)
    assert matches(row, "space", by_key=False)
    assert not matches(row, "row theme", by_key=False)
    assert not matches(row, "Spa", by_key=True)
