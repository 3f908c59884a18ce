"""The choice of columns: the dialogue, what it changes in the table, and what lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.errors import ConfigError
from kshunt.tui.actions.view_names import (
    BROKERS,
    OPERATIONS,
    OVERVIEW,
    PARTITIONS,
    THROTTLES,
    TOPICS,
)
from kshunt.tui.dialogs.columns import ColumnsScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.dialogs.settings import SettingsScreen
from kshunt.tui.dialogs.sort import SortScreen
from kshunt.tui.settings import SettingValue, keep_setting, parse_settings
from kshunt.tui.shell.own_settings import OwnSettings
from kshunt.tui.tables.row_texts import rows_csv
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.app import Shown, check_frame, dashboard, named, settled
from tests.support.tui.cluster import incident, running_move

FILE = """\
# Mine; see the wiki.
bell = true  # loud

[columns]  # what I look at
brokers = ["-leaders"]
"""

Opened = Callable[..., AbstractAsyncContextManager[Shown]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A dashboard on the settings file."""
    path = tmp_path / "dashboard.toml"
    path.write_text(FILE)

    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(path, name, value)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[Shown]:
        settings = parse_settings(path.read_text())
        cluster = incident()
        running_move(cluster)
        begins: dict[str, Any] = {
            "own_settings": OwnSettings(settings, "~/.config/kshunt/dashboard.toml"),
            "keep": keep,
            "orders": settings.sort,
            "columns": settings.columns,
        }
        async with dashboard(tmp_path / "s", cluster, **(begins | options)) as shown:
            yield shown

    return run


async def choosing(shown: Shown) -> ColumnsScreen:
    """The dialogue, once it is open."""
    await shown.pilot.press("V")
    screen = await shown.dialog(ColumnsScreen)
    await settled(shown)
    assert isinstance(screen, ColumnsScreen)
    return screen


async def go_to(shown: Shown, name: str) -> None:
    """Put the cursor on a column."""
    screen = shown.app.screen
    assert isinstance(screen, ColumnsScreen)
    place = [column.name for column in screen._columns].index(name)
    await shown.pilot.press("home", *["j"] * place)
    await settled(shown)


def row(shown: Shown, name: str) -> str:
    """The line of a column, without the frame."""
    found = [line.partition("│")[2] for line in shown.lines() if f"] {name}" in line]
    return " ".join(found[0].rpartition("│")[0].split())


def keys(shown: Shown) -> list[str]:
    """The columns in sight."""
    return [column.key for column in shown.grid.shown_columns]


def text(tmp_path: Path) -> str:
    """The file."""
    return (tmp_path / "dashboard.toml").read_text()


async def test_a_column_is_hidden_and_shown_again(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        assert {"role", "throttled"} <= set(keys(shown))
        await choosing(shown)
        assert row(shown, "Role") == "[x] Role"
        await shown.pilot.press("space")
        await settled(shown)
        assert row(shown, "Role") == "[ ] Role"
        assert "Details, y, E and the filter still have it." in shown.frame()
        assert "role" in keys(shown), "nothing changes before Enter"
        await shown.pilot.press("enter")
        await shown.closed()
        assert "role" not in keys(shown)
        assert shown.said == "1 column hidden. V chooses."
        wanted = f'{FILE}partitions = ["-role"]\n'
        await shown.until(lambda: text(tmp_path) == wanted, "it is kept, and comments stay")
    async with opened() as shown:
        assert "role" not in keys(shown)
        await choosing(shown)
        await shown.pilot.press("space", "enter")
        await shown.closed()
        assert "role" in keys(shown)
        await shown.until(lambda: text(tmp_path) == FILE, "nothing is chosen any more")


async def test_escape_leaves_all_as_it_was(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        before = keys(shown)
        for key in ("escape", "q", "V"):
            await choosing(shown)
            await shown.pilot.press("space", "j", "space", "j", "plus", key)
            await shown.closed()
            assert keys(shown) == before
        await choosing(shown)
        assert row(shown, "Role") == "[x] Role"
        assert text(tmp_path) == FILE


async def test_keys_in_any_order_do_nothing_else(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        screen = await choosing(shown)
        await shown.pilot.press("up", "k", "home", "space", "plus", "x", "pageup", "pagedown")
        await shown.pilot.press("end", "j", "down", "c", "s", "o", "E", "slash", "2", "Z", "minus")
        assert shown.app.screen is screen
        assert shown.backend.changes == []
        await shown.pilot.press("enter", "enter", "escape", "space", "x")
        await shown.until(lambda: shown.app.screen is not screen, "it is closed")
        assert text(tmp_path) == FILE, "what was chosen is what was there"
        assert shown.backend.changes == []


async def test_typing_ahead_of_the_dialogue_reaches_it(opened: Opened) -> None:
    async with opened() as shown:
        await shown.pilot.press("V", "space", "enter")
        await shown.until(lambda: "role" not in keys(shown), "the column is hidden")
        await shown.closed()


async def test_what_says_which_row_it_is_cannot_be_hidden(opened: Opened) -> None:
    async with opened() as shown:
        await choosing(shown)
        for name in ("Topic", "Partition", "Broker"):
            assert row(shown, name) == f"[x] {name} always shown"
            await go_to(shown, name)
            await shown.pilot.press("space", "plus")
            await settled(shown)
            assert row(shown, name) == f"[x] {name} always shown"
            assert f"{name} says which row it is: it cannot be hidden." in shown.frame()
        await shown.pilot.press("enter")
        await shown.closed()
        assert keys(shown)[:3] == ["topic", "partition", "broker"]
        assert shown.said == "The table has its own columns. V chooses."


async def test_what_has_no_room_is_said_and_can_come_first(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        await choosing(shown)
        assert row(shown, "Size") == "[x] Size no room"
        await go_to(shown, "Size")
        assert "The terminal is too narrow for it. + takes the room of others." in shown.frame()
        await shown.pilot.press("plus")
        await settled(shown)
        assert row(shown, "Size") == "[+] Size first"
        assert row(shown, "Throttled") == "[x] Throttled no room"
        await shown.pilot.press("enter")
        await shown.closed()
        assert keys(shown)[-1] == "size"
        assert "throttled" not in keys(shown)
        assert shown.said == "1 column first. V chooses."
        wanted = f'{FILE}partitions = ["size"]\n'
        await shown.until(lambda: text(tmp_path) == wanted, "it is kept")
        await choosing(shown)
        await shown.pilot.press("x", "enter")
        await shown.closed()
        assert "size" not in keys(shown)
        assert "throttled" in keys(shown)
        await shown.until(lambda: text(tmp_path) == FILE, "the default is kept as nothing")


async def test_it_says_what_has_room_as_the_terminal_changes(opened: Opened) -> None:
    async with opened() as shown:
        await choosing(shown)
        await shown.pilot.resize_terminal(40, 10)
        await shown.until(lambda: row(shown, "Role") == "[x] Role no room", "it has no room now")
        assert shown.lines()[-1].startswith("└")
        await shown.pilot.press("end", "space", "home", "pagedown", "k")
        await settled(shown)
        await shown.pilot.resize_terminal(20, 3)
        await shown.pilot.press("j", "space")
        await shown.pilot.resize_terminal(200, 40)
        await shown.until(lambda: row(shown, "Size") == "[x] Size", "there is room for it")
        await shown.pilot.press("escape")
        await shown.closed()
        assert "size" in keys(shown)


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_its_frame(opened: Opened, size: tuple[int, int]) -> None:
    async with opened(size=size) as shown:
        await choosing(shown)
        await shown.pilot.press("space", "end", "plus")
        await check_frame(named("choosing-columns", shown), shown)


async def test_a_terminal_without_lines_has_the_same_signs(opened: Opened) -> None:
    async with opened(glyphs=ASCII) as shown:
        await choosing(shown)
        assert shown.frame().isascii()
        assert "[x] Role" in shown.frame()


async def test_a_hidden_column_still_sorts_and_says_so(opened: Opened) -> None:
    async with opened() as shown:
        shown.view.sort_by("lag_bytes")  # type: ignore[attr-defined]
        await shown.until_shown()
        await choosing(shown)
        assert row(shown, "Lag bytes") == "[x] Lag bytes ▾1"
        await go_to(shown, "Lag bytes")
        await shown.pilot.press("space", "enter")
        await shown.closed()
        order = shown.app.store.queries["partitions"].order
        assert (order.key, order.reverse) == ("lag_bytes", True)
        words = "1 column hidden; the table is still sorted by Lag bytes. V chooses."
        assert shown.said == words
        await shown.pilot.press("o")
        await shown.dialog(SortScreen)
        assert "Lag bytes ▾1 (hidden)" in shown.frame()
        await shown.pilot.press("escape")
        await shown.closed()
        for _ in range(len(keys(shown)) + 1):
            await shown.press("s")
            assert shown.app.store.queries["partitions"].order.key != "lag_bytes"


async def test_details_copies_and_exports_have_every_column(opened: Opened) -> None:
    async with opened() as shown:
        table = shown.grid.table
        assert table is not None
        before = rows_csv(table)
        await choosing(shown)
        await shown.pilot.press("space", "j", "space", "enter")
        await shown.closed()
        assert not {"role", "status"} & set(keys(shown))
        exported = shown.view.exported_table
        assert exported is not None
        assert rows_csv(exported) == before
        await shown.press("y")
        assert "Role: " in shown.said
        await shown.pilot.press("enter")
        await shown.dialog(RowDetailsScreen)
        assert "Role  " in shown.frame()
        await shown.pilot.press("escape")
        await shown.closed()


async def test_what_is_hidden_can_be_looked_for(opened: Opened) -> None:
    async with opened(start_view=BROKERS) as shown:
        await choosing(shown)
        await go_to(shown, "State")
        await shown.pilot.press("space", "enter")
        await shown.closed()
        assert "controller" not in shown.frame()
        await shown.press("slash")
        await shown.write("controller")
        await shown.press("enter")
        assert shown.grid.table is not None
        assert len(shown.grid.table) == 1


async def test_each_table_has_a_choice_of_its_own(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        for view, hidden in ((THROTTLES, "leader"), (OPERATIONS, "state"), (TOPICS, "partitions")):
            shown.app.switch_mode(view)
            await shown.until_shown()
            await choosing(shown)
            assert f"Columns of the {view} table" in shown.frame()
            await shown.pilot.press("space", "enter")
            await shown.closed()
            assert hidden not in keys(shown), view
            assert keys(shown), view
        await shown.until(lambda: 'topics = ["-partitions"]' in text(tmp_path), "it is kept")
        assert parse_settings(text(tmp_path)).columns.keys() == {
            BROKERS,
            THROTTLES,
            OPERATIONS,
            TOPICS,
        }


async def test_groups_are_another_table_than_replicas(opened: Opened, tmp_path: Path) -> None:
    async with opened(size=(120, 30)) as shown:
        await choosing(shown)
        await go_to(shown, "Catch-up")
        await shown.pilot.press("space", "enter")
        await shown.closed()
        await shown.press("v")
        assert "rate" in keys(shown)
        await choosing(shown)
        await go_to(shown, "ETA")
        await shown.pilot.press("space", "enter")
        await shown.closed()
        assert "eta" not in keys(shown)
        await shown.press("v", "v", "v")
        assert "eta" in keys(shown)
        assert "rate" not in keys(shown)
        await shown.until(lambda: 'groups = ["-eta"]' in text(tmp_path), "it is kept")


async def test_a_matrix_has_no_choice(opened: Opened) -> None:
    async with opened(start_view=BROKERS) as shown:
        assert "leaders" not in keys(shown), "the file hides it"
        await shown.press("m")
        await shown.press("V")
        assert shown.said == "The columns of this table cannot be chosen; h l shift them."
        assert shown.app.screen is shown.view
        await shown.press("o")
        await shown.dialog(SortScreen)
        assert "(hidden)" not in shown.frame()


async def test_a_view_without_a_table_has_no_choice(opened: Opened) -> None:
    async with opened(start_view=OVERVIEW) as shown:
        await shown.pilot.press("V")
        assert not isinstance(shown.app.screen, ColumnsScreen)


@pytest.mark.parametrize("view", [PARTITIONS, BROKERS])
async def test_the_palette_leads_there(opened: Opened, view: str) -> None:
    async with opened(start_view=view) as shown:
        await shown.press("colon")
        await shown.write("columns")
        await shown.until(lambda: "Columns (V)" in shown.frame(), "it is found")
        await shown.pilot.press("enter")
        await shown.dialog(ColumnsScreen)


async def test_the_mouse_leads_there(opened: Opened) -> None:
    async with opened() as shown:
        await shown.pilot.click("#grid", offset=(5, 0), button=3)
        await shown.dialog(ColumnsScreen)
        await settled(shown)
        lines = shown.lines()
        (y,) = [place for place, line in enumerate(lines) if "] Status" in line]
        await shown.pilot.click(offset=(lines[y].index("Status"), y))
        await shown.until(lambda: row(shown, "Status") == "[ ] Status", "a click hides it")
        await shown.pilot.press("enter")
        await shown.closed()
        assert "status" not in keys(shown)
        assert shown.app.store.queries["partitions"].order.key == "", "the click sorts nothing"


async def test_what_the_file_chooses_wrongly_is_said_once(opened: Opened, tmp_path: Path) -> None:
    chosen = 'partitions = ["newer", "-topic", "-mode", "-role"]\n'
    (tmp_path / "dashboard.toml").write_text(f"{FILE}{chosen}")
    async with opened(size=(160, 30)) as shown:
        words = (
            "The settings choose newer in partitions: there is no such column. "
            "The settings hide topic in partitions: it says which row it is, and stays."
        )
        assert shown.said == words
        assert keys(shown)[0] == "topic"
        assert "role" not in keys(shown)
        await choosing(shown)
        await go_to(shown, "Status")
        await shown.pilot.press("space", "enter")
        await shown.closed()
        kept = 'partitions = ["newer", "-topic", "-mode", "-role", "-status"]\n'
        await shown.until(lambda: kept in text(tmp_path), "what another version has stays")
        await shown.press("3", "2")
        assert "The settings" not in shown.said


async def test_what_is_wrong_of_groups_is_said_when_they_are_shown(
    opened: Opened, tmp_path: Path
) -> None:
    (tmp_path / "dashboard.toml").write_text('[columns]\ngroups = ["-none", "-group"]\n')
    async with opened(size=(160, 30)) as shown:
        assert shown.said == ""
        await shown.press("v")
        words = (
            "The settings choose none in groups: there is no such column. "
            "The settings hide group in groups: it says which row it is, and stays."
        )
        await shown.until(lambda: shown.said == words, "it is said")
        await shown.press("v")
        assert shown.said.startswith("Grouped by broker")


async def test_the_settings_screen_lists_it_and_drops_it(opened: Opened, tmp_path: Path) -> None:
    async with opened(start_view=BROKERS) as shown:
        assert "leaders" not in keys(shown)
        await shown.pilot.press("ctrl+s", "end")
        await shown.dialog(SettingsScreen)
        await settled(shown)
        assert "columns.brokers         -leaders" in shown.frame()
        assert "The columns of a table. V chooses them in the view; x drops it." in shown.frame()
        await shown.pilot.press("x")
        await shown.until(lambda: "columns.brokers" not in shown.frame(), "it is gone")
        assert parse_settings(text(tmp_path)).columns == {}
        await shown.pilot.press("escape")
        await shown.closed()
        assert "leaders" in keys(shown)


async def test_a_file_that_cannot_be_written_leaves_the_choice_for_the_session(
    opened: Opened, tmp_path: Path
) -> None:
    def keep(name: str, value: SettingValue | None) -> None:
        raise ConfigError(f"{name} was not kept: the disk is full.")

    async with opened(keep=keep) as shown:
        await choosing(shown)
        await shown.pilot.press("space", "enter")
        await shown.closed()
        words = "columns.partitions was not kept: the disk is full."
        await shown.until(lambda: shown.said == words, "it is said")
        assert "role" not in keys(shown)
        assert text(tmp_path) == FILE
        assert shown.app.own_settings.named("columns.partitions").now == ()


async def test_the_cursor_and_marks_stay_where_they_are(opened: Opened) -> None:
    async with opened() as shown:
        await shown.press("j", "j", "space", "j")
        cursor, top, marked = shown.cursor, shown.grid.top_row, set(shown.grid.marked)
        await choosing(shown)
        await shown.publish()
        await shown.pilot.press("space", "enter")
        await shown.closed()
        assert (shown.cursor, shown.grid.top_row, shown.grid.marked) == (cursor, top, marked)


async def test_a_lost_connection_keeps_the_choice(opened: Opened) -> None:
    async with opened() as shown:
        await choosing(shown)
        await shown.backend.stop()
        await shown.until(lambda: shown.app.store.scene.lost, "the loss is noticed")
        await shown.pilot.press("space", "enter")
        await shown.until(lambda: shown.app.screen is shown.view, "it is closed")
        assert "role" not in keys(shown)
        shown.backend.snapshot = shown.backend.cluster.step()
        await shown.backend.start()
        await shown.until(lambda: shown.app.store.scene.live, "it is back")
        await shown.until_shown()
        assert "role" not in keys(shown)
