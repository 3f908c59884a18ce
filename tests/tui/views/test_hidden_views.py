"""A view that is out of sight for long holds no rows, and is where it was once it is shown."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.views.table_screen import LET_GO_S, TableScreen
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident

pytestmark = pytest.mark.slow


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The partitions, far enough down that the table is scrolled."""
    async with dashboard(tmp_path / "s", incident()) as running:
        await running.press(*["j"] * 40)
        yield running


def partitions(shown: Shown) -> TableScreen:
    """The view of partitions, in sight or not."""
    found = [view for view in shown.app.views() if view.VIEW == PARTITIONS]
    return cast(TableScreen, found[0])


async def out_of_sight(shown: Shown, seconds: float) -> None:
    """Look at another view for that time."""
    await shown.press("3")
    shown.time.now += seconds
    await shown.publish()
    await shown.publish()


async def test_no_old_snapshot_is_kept_by_a_view_out_of_sight(shown: Shown) -> None:
    old = weakref.ref(shown.app.store.scene.snapshot)
    await out_of_sight(shown, LET_GO_S + 1)
    assert partitions(shown).grid.table is None
    assert PARTITIONS not in shown.app.store.tables
    gc.collect()
    assert old() is None or old() is shown.app.store.scene.snapshot


async def test_a_view_that_was_left_for_a_moment_keeps_its_rows(shown: Shown) -> None:
    await out_of_sight(shown, LET_GO_S / 2)
    assert partitions(shown).grid.table is not None


async def test_cursor_scroll_and_marks_are_where_they_were(shown: Shown) -> None:
    await shown.press("space")
    cursor, marked = shown.cursor, set(shown.grid.marked)
    line = shown.grid.cursor_row - shown.grid.top_row
    frame = shown.lines()[3:-1]
    await out_of_sight(shown, LET_GO_S + 1)
    assert partitions(shown).grid.table is None
    await shown.press("2")
    await shown.until(lambda: shown.grid.table is not None, "the rows are there again")
    await shown.until_shown()
    assert shown.cursor == cursor
    assert shown.grid.marked == marked
    assert shown.grid.cursor_row - shown.grid.top_row == line
    names = [text.split()[:2] for text in frame]
    assert [text.split()[:2] for text in shown.lines()[3:-1]] == names


async def test_what_is_in_sight_below_a_dialogue_is_kept(shown: Shown) -> None:
    await shown.press("question_mark")
    shown.time.now += LET_GO_S * 3
    await shown.publish()
    await shown.publish()
    assert partitions(shown).grid.table is not None


async def test_it_may_be_resized_while_it_holds_no_rows(shown: Shown) -> None:
    cursor = shown.cursor
    await out_of_sight(shown, LET_GO_S + 1)
    await shown.resize(100, 20)
    await shown.press("2")
    await shown.until(lambda: shown.grid.table is not None, "the rows are there again")
    assert shown.cursor == cursor
    assert shown.grid.top_row <= shown.grid.cursor_row < shown.grid.top_row + shown.grid.page_rows
