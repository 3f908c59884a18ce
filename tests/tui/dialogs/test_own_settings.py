"""The settings screen: what holds and why, and changing it there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.settings import DESCRIBED, SettingsScreen
from kshunt.tui.dialogs.themes import ThemeScreen
from kshunt.tui.settings import DashboardSettings, SettingValue, keep_setting, parse_settings
from kshunt.tui.shell.own_settings import Held, Origin, OwnSettings
from kshunt.tui.tables.model import NATURAL
from tests.support.tui.app import Shown, check_frame, dashboard, named
from tests.support.tui.cluster import incident

FILE = """\
# Mine; see the wiki.
theme = "midnight"
bell = true  # loud

[keys]
follow = "J"

[sort]
partitions = ["-lag_bytes", "topic"]
"""
FILE_NAME = "~/.config/kshunt/dashboard.toml"

Opened = Callable[..., AbstractAsyncContextManager[Shown]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """The settings screen over the partitions view, on the file."""
    path = tmp_path / "dashboard.toml"
    path.write_text(FILE)

    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(path, name, value)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[Shown]:
        held = options.pop("held", {})
        settings = parse_settings(path.read_text())
        begins: dict[str, Any] = {
            "own_settings": OwnSettings(settings, FILE_NAME, held),
            "keep": keep,
            "theme": settings.theme,
            "orders": settings.sort,
        }
        async with dashboard(tmp_path / "s", incident(), **(begins | options)) as shown:
            await shown.pilot.press("ctrl+s")
            await shown.dialog(SettingsScreen)
            yield shown

    return run


def row(shown: Shown, name: str) -> list[str]:
    """The line of a setting."""
    return next(words for line in shown.lines() if name in (words := line.strip(" │").split()))


async def choose(shown: Shown, name: str) -> None:
    """Put the cursor on a setting."""
    names = [one.name for one in shown.app.own_settings.all()]
    await shown.pilot.press("home", *["j"] * names.index(name))


def text(tmp_path: Path) -> str:
    """The file."""
    return (tmp_path / "dashboard.toml").read_text()


async def test_each_value_is_listed_with_where_it_comes_from(opened: Opened) -> None:
    held = {"mouse": Held(False, "--no-mouse")}
    async with opened(held=held) as shown:
        said = shown.frame()
        assert FILE_NAME in said
        assert row(shown, "theme")[1:] == ["midnight", "settings", "file"]
        assert row(shown, "bell")[1:] == ["on", "settings", "file"]
        assert row(shown, "start_view")[1:] == ["Overview", "default"]
        assert row(shown, "mouse")[1:] == ["off", "--no-mouse"]
        assert row(shown, "keys.follow")[1:] == ["J", "settings", "file"]
        assert row(shown, "sort.partitions")[1:3] == ["-lag_bytes", "topic"]
        await check_frame(named("settings", shown), shown)


async def test_a_change_is_written_and_holds(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        await choose(shown, "bell")
        await shown.pilot.press("enter")
        await shown.until(lambda: row(shown, "bell")[1] == "off", "it is off")
        assert "It is in force now." in shown.frame()
        assert not shown.app._notices.bell
        assert text(tmp_path) == FILE.replace("bell = true", "bell = false")
        await shown.pilot.press("x")
        await shown.until(lambda: row(shown, "bell")[2] == "default", "the default")
        assert text(tmp_path) == FILE.replace("bell = true  # loud\n", "")


async def test_what_is_read_at_the_start_says_so(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        await choose(shown, "start_view")
        await shown.until(lambda: "A change takes effect" in shown.frame(), "it is said before")
        await shown.pilot.press("enter", "j", "enter")
        await shown.until(lambda: "→" in row(shown, "start_view"), "it is chosen")
        assert row(shown, "start_view")[1:4] == ["Overview", "→", "Partitions"]
        assert "It takes effect at the next start." in shown.frame()
        assert parse_settings(text(tmp_path)).start_view == PARTITIONS


async def test_a_flag_holds_and_is_not_overwritten_silently(opened: Opened, tmp_path: Path) -> None:
    async with opened(held={"record": Held(False, "--no-record")}) as shown:
        await choose(shown, "record")
        await shown.pilot.press("enter")
        await shown.until(lambda: "--no-record still decides" in shown.frame(), "it is said")
        assert row(shown, "record")[1:] == ["off", "→", "on", "--no-record"]
        assert parse_settings(text(tmp_path)).record
        await shown.pilot.press("enter")
        await shown.until(lambda: not parse_settings(text(tmp_path)).record, "and off")
        assert row(shown, "record")[1] == "off"


async def test_a_theme_is_shown_while_it_is_chosen(opened: Opened, tmp_path: Path) -> None:
    async with opened() as shown:
        await shown.pilot.press("enter")
        await shown.dialog(ThemeScreen)
        await shown.pilot.press("k")
        await shown.until(lambda: shown.app.theme != "midnight", "another one is tried")
        tried = shown.app.theme
        await shown.pilot.press("escape")
        await shown.dialog(SettingsScreen)
        assert shown.app.theme == "midnight"
        await shown.pilot.press("enter", "k", "enter")
        await shown.until(lambda: row(shown, "theme")[1] == tried, "it is worn")
        assert parse_settings(text(tmp_path)).theme == shown.app.theme == tried


async def test_colours_of_the_terminal_are_not_chosen_here(opened: Opened, tmp_path: Path) -> None:
    held = {"theme": Held("ansi", "NO_COLOR")}
    async with opened(held=held, plain=True, theme="") as shown:
        for key in ("enter", "x"):
            await shown.pilot.press(key)
            assert "NO_COLOR decides" in shown.frame()
        assert text(tmp_path) == FILE


async def test_an_order_is_dropped_and_keys_are_edited_in_the_file(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as shown:
        await choose(shown, "keys.follow")
        await shown.pilot.press("enter", "x")
        assert "Edit them in the file" in shown.frame()
        assert text(tmp_path) == FILE
        await choose(shown, "sort.partitions")
        await shown.pilot.press("x")
        await shown.until(lambda: "sort.partitions" not in shown.frame(), "it is gone")
        assert parse_settings(text(tmp_path)).sort == {}
        assert shown.app.store.queries[PARTITIONS].order == NATURAL


async def test_an_order_that_is_chosen_in_its_view_is_listed(opened: Opened) -> None:
    async with opened() as shown:
        await shown.press("escape", "S")
        await shown.until(
            lambda: shown.app.own_settings.named("sort.partitions").now == ("lag_bytes", "topic"),
            "it is kept",
        )


async def test_a_file_that_cannot_be_written_changes_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(tmp_path, name, value)

    async with opened(keep=keep) as shown:
        await choose(shown, "bell")
        await shown.pilot.press("enter")
        await shown.until(lambda: "bell was not kept" in shown.frame(), "it is said")
        assert row(shown, "bell")[1] == "on"
        assert shown.app.own_settings.named("bell").origin is Origin.FILE


async def test_without_a_file_a_choice_holds_for_the_session(opened: Opened) -> None:
    async with opened(keep=None, own_settings=OwnSettings()) as shown:
        assert "Nothing is written to a file from here." in shown.frame()
        await choose(shown, "title")
        await shown.pilot.press("space")
        await shown.until(lambda: row(shown, "title")[1] == "off", "it is off")
        assert "it holds for this session" in shown.frame()


async def test_the_palette_leads_there_and_the_list_can_be_scrolled_when_low(
    opened: Opened,
) -> None:
    async with opened() as shown:
        await shown.press("escape", "colon")
        await shown.write("setti")
        await shown.until(lambda: "Settings (Ctrl-S)" in shown.frame(), "it is found")
        await shown.pilot.press("enter")
        await shown.dialog(SettingsScreen)
        await shown.pilot.resize_terminal(80, 12)
        await choose(shown, "sort.partitions")
        await shown.pilot.pause()
        assert "sort.partitions" in shown.frame()
        assert "Enter changes it" in shown.frame()


async def test_the_help_says_that_the_mouse_is_off(opened: Opened) -> None:
    async with opened(held={"mouse": Held(False, "--no-mouse")}) as shown:
        await shown.press("escape", "question_mark")
        await shown.dialog(HelpScreen)
        await shown.pilot.press("slash")
        await shown.write("mouse")
        assert "off: your terminal selects text with it" in shown.frame()


def test_every_setting_is_described() -> None:
    names = {one.name for one in fields(DashboardSettings)}
    assert names - {"keys", "sort", "columns", "written"} == set(DESCRIBED)
