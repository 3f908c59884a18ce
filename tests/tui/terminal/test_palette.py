"""The palette leads to every topic, broker and operation by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, PARTITIONS
from kshunt.tui.palette import PLACES_MOST, Palette, places
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident, running_move


async def chosen(shown: Shown, text: str, title: str) -> None:
    """Type into the palette and take the hit of that title."""
    await shown.press("colon")
    await shown.write(text)
    await shown.until(lambda: title in shown.frame(), f"{title} is offered")
    await shown.pilot.press("enter")
    await shown.closed()


@pytest.mark.parametrize("start", [PARTITIONS, "overview"])
async def test_it_leads_to_topics_brokers_and_operations(tmp_path: Path, start: str) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, start_view=start) as shown:
        await chosen(shown, "topic ord", "topic orders")
        await shown.until(lambda: shown.app.current_mode == PARTITIONS, "the replicas are shown")
        assert shown.app.store.queries[PARTITIONS].filter_text == "topic:orders"
        await chosen(shown, "broker 3", "broker 3")
        await shown.until(lambda: shown.app.current_mode == BROKERS, "the brokers are shown")
        await shown.until(lambda: shown.grid.cursor_key == 3, "the cursor is on its row")
        await chosen(shown, "op-1", "operation op-1")
        await shown.until(lambda: shown.app.current_mode == OPERATIONS, "operations are shown")
        await shown.until(lambda: shown.grid.cursor_key == "op-1", "the cursor is on its row")


async def test_what_is_named_like_many_is_offered_in_part(tmp_path: Path) -> None:
    cluster = incident()
    async with dashboard(tmp_path / "s", cluster) as shown:
        titles = [place.title for place in places(shown.app)]
        assert len(titles) == len(set(titles))
        assert {"topic orders", "broker 1"} <= set(titles)
        await shown.press("colon")
        await shown.write("nothing is called so")
        await shown.pilot.pause()
        assert "topic" not in shown.frame().replace("topic or", "")
        assert PLACES_MOST < 100
        await shown.press("escape")


async def test_a_palette_opens_again_before_the_last_one_is_gone(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        await shown.press("colon")
        await shown.until(lambda: "Search" in shown.frame(), "it is open")
        first = shown.app.screen
        shown.app.pop_screen()
        shown.app.action_command_palette()
        shown.app.action_command_palette()
        assert sum(isinstance(one, Palette) for one in shown.app.screen_stack) == 1
        await shown.until(lambda: not first.is_attached, "the first one is gone")
        assert isinstance(shown.app.screen, Palette)
