"""The overview at every size, by its keys: Tab, z, Esc, Enter, and a terminal that changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kshunt.tui.actions.view_names import BROKERS, OVERVIEW, PARTITIONS
from kshunt.tui.facts.view_query import PARTS as PARTS_ASKED
from kshunt.tui.grid.part import Part
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.overview.parts import EVENTS, FLOWS, HEAD, MOVES, PARTS
from kshunt.tui.views.overview.screen import OverviewScreen
from tests.support.tui.app import Shown, check_frame, dashboard
from tests.support.tui.cluster import moving

LARGE = (200, 50)


@pytest.fixture
async def large(tmp_path: Path) -> AsyncIterator[Shown]:
    """The overview of a move in a large terminal."""
    async with dashboard(tmp_path / "s", moving(), size=LARGE, start_view=OVERVIEW) as shown:
        await shown.publish()
        await shown.until(lambda: "clickstream" in shown.frame(), "the parts are shown")
        yield shown


def screen(shown: Shown) -> OverviewScreen:
    assert isinstance(shown.view, OverviewScreen)
    return shown.view


def in_sight(shown: Shown) -> list[str]:
    return [part.part for part in screen(shown).query(Part) if part.display]


def chosen(shown: Shown) -> str:
    found = [part.part for part in screen(shown).query(Part) if part.has_class("-chosen")]
    return found[0] if found else HEAD


async def test_everything_is_in_sight_together(large: Shown) -> None:
    assert in_sight(large) == list(PARTS)
    for title in ("Moves", "Who feeds whom", "Brokers", "Events", "Health", "Progress"):
        assert title in large.frame()
    await check_frame("overview-moving-200x50", large)


async def test_tab_goes_to_every_part_and_back(large: Shown) -> None:
    seen = []
    for _ in range(5):
        await large.press("tab")
        seen.append(chosen(large))
    assert seen == [*PARTS, HEAD]
    await large.press("shift+tab", "shift+tab")
    assert chosen(large) == PARTS[-2]


async def test_z_gives_a_part_the_screen_and_z_or_escape_gives_it_back(large: Shown) -> None:
    await large.press("tab", "tab", "z")
    assert in_sight(large) == [FLOWS]
    assert not screen(large).query_one(f"#{HEAD}").display
    await large.until(
        lambda: screen(large).query_one(f"#{FLOWS}").size.height > 40, "the part is high"
    )
    await large.press("tab")
    assert in_sight(large) == ["brokers"]
    await large.press("escape")
    assert in_sight(large) == list(PARTS)
    await large.press("z", "z")
    assert in_sight(large) == list(PARTS)


async def test_lines_of_a_part_lead_to_their_rows(large: Shown) -> None:
    await large.press("tab", "j", "enter")
    assert large.app.current_mode == PARTITIONS
    assert "clickstream-web-sessions-eu-west-1" in large.cursor


async def test_a_topic_that_moves_leads_to_its_moving_partitions(large: Shown) -> None:
    await large.press("tab", "tab", "j", "enter")
    assert large.app.current_mode == PARTITIONS
    assert len(large.grid.table or ()) == 2 * 4
    assert "payments.transactions.settled.v2" in large.cursor


async def test_a_part_without_a_chosen_line_leads_to_its_view(large: Shown) -> None:
    await large.press("tab", "tab", "enter")
    assert large.app.current_mode == BROKERS


async def test_a_smaller_terminal_has_fewer_parts_and_keeps_what_was_chosen(large: Shown) -> None:
    await large.press("tab")
    await large.pilot.resize_terminal(120, 36)
    await large.until_shown()
    assert in_sight(large) == ["moves", "flows", "brokers"]
    assert chosen(large) == MOVES
    await large.pilot.resize_terminal(80, 24)
    await large.until_shown()
    assert in_sight(large) == []
    assert chosen(large) == HEAD
    assert "Worst" in large.frame()
    assert large.app.store.queries[OVERVIEW].group == ""
    await large.pilot.resize_terminal(*LARGE)
    await large.until_shown()
    assert in_sight(large) == list(PARTS)
    assert large.app.store.queries[OVERVIEW].group == PARTS_ASKED


async def test_a_zoomed_part_that_has_no_place_any_more_is_left(large: Shown) -> None:
    await large.press("shift+tab", "z")
    assert in_sight(large) == [EVENTS]
    await large.pilot.resize_terminal(120, 36)
    await large.until_shown()
    assert in_sight(large) == ["moves", "flows", "brokers"]
    assert screen(large).query_one(f"#{HEAD}").display


async def test_a_small_terminal_says_how_large_it_has_to_be(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=OVERVIEW) as shown:
        for key in ("z", "tab"):
            await shown.press(key)
            assert shown.said == "More parts need a terminal of 116x34."


async def test_parts_follow_the_cluster(large: Shown) -> None:
    before = large.frame()
    await large.publish(30.0)
    assert large.frame() != before
    await large.press("5", "1")
    assert in_sight(large) == list(PARTS)


async def test_parts_are_not_made_anew_for_each_of_many_snapshots(large: Shown) -> None:
    large.backend.cluster.copy_bytes_per_s = {2: 800_000_000}

    def lane() -> str:
        return next(line for line in large.lines() if "eu-west-1-9 " in line)

    await large.publish(1.0)
    before = lane()
    await large.publish(0.4)
    assert lane() == before
    await large.publish(0.6)
    assert lane() != before


async def test_the_middle_layout(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), size=(120, 36), start_view=OVERVIEW) as shown:
        await shown.publish()
        await shown.until(lambda: "Who feeds whom" in shown.frame(), "the parts are shown")
        await check_frame("overview-moving-120x36", shown)


async def test_parts_in_ascii(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", moving(), size=LARGE, start_view=OVERVIEW, glyphs=ASCII
    ) as shown:
        await shown.publish()
        await shown.until(lambda: "clickstream" in shown.frame(), "the parts are shown")
        assert shown.frame().isascii()
        await check_frame("overview-ascii-200x50", shown)
