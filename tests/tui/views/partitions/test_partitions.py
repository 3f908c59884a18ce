"""The partitions view by its keys: sort columns, groups, the filter's hints, the details."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.actions.view_names import OVERVIEW, PARTITIONS
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.dialogs.sort import SortScreen
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.shell.navigation import go
from kshunt.tui.tables.targets import ScreenTarget
from tests.support.tui.app import SIZES, Shown, at_size, check_frame, dashboard, named, plotted
from tests.support.tui.cluster import eventful, incident


@pytest.fixture(params=SIZES)
async def sized(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard at each size, with a topic that has settings of its own."""
    async with at_size(tmp_path, eventful(), request.param) as running:
        running.backend.configs["orders"] = [
            _setting("min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG"),
            _setting("retention.ms", "604800000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            _setting("segment.bytes", "1073741824", "DEFAULT_CONFIG"),
        ]
        yield running


def _setting(name: str, value: str | None, source: str) -> dict[str, object]:
    default = source == "DEFAULT_CONFIG"
    return {"name": name, "value": value, "source": source, "is_default": default}


# Sorting


async def test_columns_are_added_behind_and_the_header_numbers_them(shown: Shown) -> None:
    await shown.press("o")
    await shown.dialog(SortScreen)
    await shown.press("j", "j", "j", "enter")
    await shown.closed()
    assert "Brk▴ " in shown.frame()
    await shown.press("o", "j", "j", "j", "j", "plus")
    await shown.closed()
    assert "Br▴1" in shown.lines()[3]
    assert "Byte▾2" in shown.lines()[3]
    assert "Sorted by Broker, then Lag bytes" in shown.said
    await shown.press("S")
    assert "Br▾1" in shown.lines()[3]
    await shown.press("o")
    assert "Lag bytes ▾2" in shown.frame()
    await shown.press("minus")
    await shown.closed()
    assert [level.key for level in shown.app.store.queries["partitions"].order.levels] == [
        "lag_bytes"
    ]
    await shown.press("o", "escape")
    await shown.closed()
    await shown.press("s")
    assert len(shown.app.store.queries["partitions"].order.levels) <= 1


# Groups


async def test_groups_are_opened_and_left_again_at_the_same_place(shown: Shown) -> None:
    await shown.press("v")
    assert "4 topics" in shown.frame()
    await shown.press("j", "j")
    assert shown.cursor == "topic orders"
    await shown.press("enter")
    assert "topic orders: 20" in shown.frame()
    assert shown.cursor == "orders-0 on broker 2"
    await shown.press("G", "escape")
    assert shown.cursor == "topic orders"
    await shown.press("v")
    assert "5 brokers" in shown.frame()
    await shown.press("v")
    assert "op-1 running" in shown.frame()
    await shown.press("enter", "v")
    assert "96 replicas" in shown.frame()


async def test_the_cursor_stays_on_its_group_through_refreshes(shown: Shown) -> None:
    await shown.press("v", "o", "j", "j", "j", "j", "j", "j", "enter")
    await shown.closed()
    assert shown.app.store.queries["partitions"].order.key == "lag_bytes"
    await shown.press("j")
    before = shown.cursor
    shown.backend.cluster.copy_bytes_per_s = {3: 900_000_000, 5: 900_000_000}
    await shown.publish(5.0)
    assert shown.cursor == before


async def test_marks_live_through_refresh_filter_and_groups(shown: Shown) -> None:
    await shown.press("f", "space", "space")
    assert "2 marked" in shown.frame()
    marked = set(shown.grid.marked)
    await shown.press("f", "slash")
    await shown.write("audit")
    await shown.press("enter")
    assert "2 marked, 12 of 96" in shown.frame()
    await shown.press("v", "space")
    assert "3 marked, 1 topic: audit" in shown.frame()
    await shown.publish()
    assert marked < shown.grid.marked
    chosen = shown.view.chosen_partitions()  # type: ignore[attr-defined]
    assert len([one for one in chosen if one.topic == "audit-log"]) == 4
    await shown.press("escape")
    assert "marked" not in shown.frame()


async def test_a_group_is_chosen_with_all_of_its_partitions(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("moving")
    await shown.press("enter", "v", "j")
    assert shown.view.chosen_partitions() == (  # type: ignore[attr-defined]
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
    )


# The filter line


async def test_the_hint_follows_what_is_typed_and_tab_completes(shown: Shown) -> None:
    await shown.press("slash")
    assert "topic:pay*  partition:0,1  broker:3" in shown.lines()[-2]
    await shown.write("stu")
    assert "stuck: cannot arrive" in shown.lines()[-2]
    await shown.press("tab")
    assert shown.lines()[-3].startswith("stuck")
    assert "0 of 96: stuck" in shown.frame()
    await shown.press("enter")
    assert shown.grid.has_focus
    assert shown.lines()[-2] == ""


# Details


async def _details_of(shown: Shown, text: str) -> None:
    await shown.press("slash")
    await shown.write(text)
    await shown.press("enter", "enter")


async def test_details_follow_the_cluster_and_the_cursor(sized: Shown) -> None:
    for _ in range(4):
        await sized.publish(2.0)
    await _details_of(sized, "orders partition:0 -follower")
    await sized.press("j")
    if sized.size[1] < 36:
        await sized.dialog(RowDetailsScreen)
        await sized.press("escape")
        await sized.closed()
        await sized.press("k", "enter")
        await sized.dialog(RowDetailsScreen)
    await sized.until(lambda: "min.insync.replicas=2" in sized.frame(), "its settings are shown")
    before = sized.frame()
    await sized.publish(2.0)
    await sized.until(lambda: sized.frame() != before, "it goes on")


async def test_details_frame(sized: Shown) -> None:
    for _ in range(4):
        await sized.publish(2.0)
    await _details_of(sized, "orders partition:0 adding")
    if sized.size[1] < 36:
        await sized.dialog(RowDetailsScreen)
    await sized.until(lambda: "min.insync.replicas=2" in sized.frame(), "its settings are shown")
    await sized.until(lambda: " ago" in sized.frame(), "the course of its lag is shown")
    if sized.size[1] > 36:
        await plotted(sized)
    await check_frame(named("partition", sized), sized)


async def test_groups_frames(sized: Shown) -> None:
    await sized.press("v", "j")
    await check_frame(named("partitions-by-topic", sized), sized)
    await sized.press("v")
    await check_frame(named("partitions-by-broker", sized), sized)
    await sized.press("v")
    await check_frame(named("partitions-by-operation", sized), sized)


async def test_sorting_frame(sized: Shown) -> None:
    await sized.press("f", "o")
    await sized.dialog(SortScreen)
    await check_frame(named("sort", sized), sized)
    await sized.press("k", "k", "k", "plus")
    await sized.closed()
    await check_frame(named("sorted-twice", sized), sized)


async def test_the_pane_closes_where_there_is_no_room(sized: Shown) -> None:
    if sized.size[1] < 36:
        return
    await sized.press("f", "enter")
    assert "Replicas    Brk Role" in sized.frame()
    await sized.press("j")
    await sized.until(lambda: f"── {sized.cursor} ─" in sized.frame(), "it follows the cursor")
    await sized.resize(80, 24)
    await sized.until(lambda: "Replicas    Brk Role" not in sized.frame(), "it is closed")
    await sized.resize(160, 50)
    await sized.until(lambda: "Replicas    Brk Role" in sized.frame(), "it is back")
    await sized.press("enter")
    assert "Replicas    Brk Role" not in sized.frame()


@pytest.mark.slow
async def test_every_state_fits_every_size(shown: Shown) -> None:
    for size in ((20, 5), (40, 10), (120, 40), (200, 60), (80, 24)):
        await shown.resize(*size)
        await shown.press("v", "enter", "escape", "v", "v", "v", "slash")
        await shown.write("b")
        await shown.press("tab", "escape", "o", "escape", "enter")
        if isinstance(shown.app.screen, RowDetailsScreen):
            await shown.press("escape")
        await shown.press("enter", "escape")
        await shown.closed()
        await shown.press("escape")
        assert all(len(line) <= size[0] for line in shown.lines())


async def test_nothing_is_done_to_a_row_while_the_cursor_is_on_its_way(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        shown.app.underway = True
        for key in ("enter", "c", "e"):
            await shown.press(key)
            assert "the cursor moves to the row" in shown.said
            assert shown.app.screen is shown.view
        shown.app.underway = False
        await shown.press("enter")
        await shown.dialog(RowDetailsScreen)


# What it opens on


async def test_it_opens_on_what_moves_or_ails_and_one_key_shows_all(tmp_path: Path) -> None:
    cluster = incident()
    async with dashboard(
        tmp_path / "s", cluster, opens_on_all=False, size=(120, 30), start_view=OVERVIEW
    ) as shown:
        await shown.press("2")
        await shown.until(lambda: "following 24 of 96, f shows all" in shown.frame(), "it opens")
        assert "f show all" in shown.lines()[-1]
        await shown.press("f")
        await shown.until(lambda: "96 replicas" in shown.frame(), "every one is shown")
        await shown.press("1", "2")
        assert "96 replicas" in shown.frame(), "the operator has chosen"


async def test_it_shows_all_again_once_nothing_moves_or_ails(tmp_path: Path) -> None:
    cluster = incident()
    async with dashboard(tmp_path / "s", cluster, opens_on_all=False) as shown:
        await shown.until(lambda: "following 24" in shown.frame(), "it opens on what moves")
        for partition in list(cluster.partitions):
            cluster.cancel(partition)
        await shown.publish()
        await shown.until(lambda: "90 replicas" in shown.frame(), "there is nothing to follow")
        cluster.down = {3: "Request timed out."}
        await shown.publish()
        assert "90 replicas" in shown.frame(), "rows do not change under the cursor"
        await shown.press("1", "2")
        await shown.until(lambda: "following" in shown.frame(), "what ails is shown")


async def test_what_leads_to_a_row_shows_it_although_it_is_well(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", incident(), opens_on_all=False, start_view=OVERVIEW
    ) as shown:
        go(shown.app, ScreenTarget(PARTITIONS, ReplicaKey("audit-log", 3, 4)))
        await shown.until(lambda: shown.app.current_mode == PARTITIONS, "it is open")
        await shown.until(lambda: "96 replicas" in shown.frame(), "every one is shown")
