"""An operator's own settings: the file, the keys, the themes that are read anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.errors import ConfigError
from kshunt.tui.actions import ACTIONS, actions_of, key_name, key_of, use_keys, view_key
from kshunt.tui.actions.view_names import BROKERS, GROUPS, PARTITIONS, TABLES, VIEWS
from kshunt.tui.data.store import Store
from kshunt.tui.dialogs.choose import ChooseScreen
from kshunt.tui.feed.scene import Scene
from kshunt.tui.settings import (
    DashboardSettings,
    SettingValue,
    keep_setting,
    load_settings,
    named_values,
    parse_settings,
    sort_value,
)
from kshunt.tui.shell.theme_files import ThemeFolder
from kshunt.tui.tables.column_choice import ColumnChoice
from kshunt.tui.tables.model import Level, Order
from kshunt.tui.views.attention import attention
from tests.support.terminal import terminal
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident, running_move

OWN = """
name = "{name}"
primary = "#7aa8e8"
background = "{background}"
foreground = "#ffffff"
"""


@pytest.fixture(autouse=True)
def default_keys() -> Iterator[None]:
    """Keys are kept for the whole process."""
    yield
    use_keys(ACTIONS, {})


# The file

OWN_FILE = """\
# Mine; see the wiki.
theme = "mono"  # dark

[keys]
follow = "F"
"""


def test_a_choice_is_kept_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.toml"
    path.write_text(OWN_FILE)
    keep_setting(path, "theme", "daylight")
    keep_setting(path, "sort.partitions", ("-lag_bytes", "topic"))
    kept = OWN_FILE.replace('"mono"', '"daylight"')
    assert path.read_text() == f'{kept}\n[sort]\npartitions = ["-lag_bytes", "topic"]\n'
    order = Order("lag_bytes", reverse=True, then=(Level("topic"),))
    assert parse_settings(path.read_text()).sort == {PARTITIONS: order}
    assert sort_value(order) == ("-lag_bytes", "topic")
    keep_setting(path, "sort.partitions", None)
    assert parse_settings(path.read_text()).sort == {}


def test_a_choice_of_columns_is_kept_likewise(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.toml"
    path.write_text(f'{OWN_FILE}\n[columns]  # few\nbrokers = ["-rack"]  # all alike\n')
    choice = ColumnChoice(first=("size",), hidden=("role", "of_a_newer_version"))
    keep_setting(path, "columns.partitions", choice.words)
    keep_setting(path, "columns.groups", ("-eta",))
    found = parse_settings(path.read_text())
    assert found.columns == {
        BROKERS: ColumnChoice(hidden=("rack",)),
        PARTITIONS: choice,
        GROUPS: ColumnChoice(hidden=("eta",)),
    }
    assert named_values(found)["columns.partitions"] == ("size", "-role", "-of_a_newer_version")
    keep_setting(path, "columns.groups", None)
    assert path.read_text() == (
        f'{OWN_FILE}\n[columns]  # few\nbrokers = ["-rack"]  # all alike\n'
        'partitions = ["size", "-role", "-of_a_newer_version"]\n'
    )


def test_the_file_and_its_folder_are_made_for_the_first_choice(tmp_path: Path) -> None:
    path = tmp_path / "kshunt" / "dashboard.toml"
    keep_setting(path, "theme", "mono")
    assert parse_settings(path.read_text()).theme == "mono"


def test_a_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("read_only = true\n")
    link = tmp_path / "dashboard.toml"
    link.symlink_to("real.toml")
    keep_setting(link, "theme", "mono")
    assert link.is_symlink()
    assert parse_settings((tmp_path / "real.toml").read_text()).theme == "mono"


@pytest.mark.parametrize("text", ["theme = ", "sort = 3", b"\xff".decode("latin-1")])
def test_a_file_that_cannot_be_changed_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dashboard.toml"
    path.write_text(text, "latin-1")
    with pytest.raises(ConfigError, match="partitions was not kept"):
        keep_setting(path, "sort.partitions", ("topic",))
    assert path.read_text("latin-1") == text


def test_two_dashboards_that_write_at_the_same_time_keep_both_settings(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.toml"
    path.write_text(OWN_FILE)
    code = (
        "import sys; from pathlib import Path; from kshunt.tui.settings import keep_setting\n"
        "for number in range(30):\n"
        "    keep_setting(Path(sys.argv[1]), f'sort.{sys.argv[2]}', (f'c{number}',))\n"
    )
    writers = [
        subprocess.Popen((sys.executable, "-c", code, str(path), view)) for view in TABLES[:3]
    ]
    assert [one.wait(60.0) for one in writers] == [0, 0, 0]
    found = parse_settings(path.read_text())
    assert {view: order.key for view, order in found.sort.items()} == dict.fromkeys(
        TABLES[:3], "c29"
    )
    assert path.read_text().startswith(OWN_FILE.rstrip())
    assert [one.name for one in tmp_path.iterdir()] == ["dashboard.toml"]


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"theme was not kept: .* is not a file"):
        keep_setting(path, "theme", "mono")
    assert path.is_fifo()


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert load_settings({"XDG_CONFIG_HOME": str(tmp_path)}) == DashboardSettings()


def test_the_file_is_read_from_its_folder_or_from_where_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "kshunt"
    folder.mkdir()
    (folder / "dashboard.toml").write_text('theme = "mono"\n')
    (tmp_path / "mine.toml").write_text('start_view = "brokers"\nrecord = false\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load_settings(environ).theme == "mono"
    named = load_settings({**environ, "KSHUNT_SETTINGS": str(tmp_path / "mine.toml")})
    assert (named.theme, named.start_view, named.record) == ("", BROKERS, False)


def test_everything_in_it_is_read() -> None:
    text = 'theme = "x"\nread_only = true\n[keys]\nfollow = "F"\ncancel_all = ["C", "Ctrl-X"]\n'
    keys = {"follow": ("F",), "cancel_all": ("C", "Ctrl-X")}
    assert parse_settings(text) == DashboardSettings(theme="x", read_only=True, keys=keys)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("theme = ", "not valid TOML"),
        ('colour = "red"', "there is no setting 'colour'"),
        ("theme = 3", "theme must be a text"),
        ('read_only = "yes"', "read_only must be true or false"),
        ('start_view = "start"', "no view 'start'"),
        ('keys = "F"', "keys must be a table"),
        ("[keys]\nfollow = 3", "a key, or a list of keys"),
        ("[keys]\nfollow = []", "a key, or a list of keys"),
        ('[keys]\nfollow = [""]', "each key must be a text"),
        ("sort = 3", "sort must be a table"),
        ('[sort]\nstart = ["topic"]', "there is no such table"),
        ('[sort]\npartitions = "topic"', "a list of columns"),
        ('[sort]\npartitions = [""]', "a list of columns"),
        ("columns = 3", "columns must be a table"),
        ('[columns]\nhistory = ["-role"]', "there is no such table"),
        ('[columns]\npartitions = "-role"', r"\[columns\] partitions has to be a list of columns"),
        ('[columns]\npartitions = ["-"]', "a list of columns"),
        ("[columns]\npartitions = [3]", "a list of columns"),
        ('[columns]\npartitions = ["size", "-size"]', "names size more than once"),
    ],
)
def test_what_means_nothing_is_named(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_settings(text)
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        load_settings({"KSHUNT_SETTINGS": str(path)})


def test_a_file_that_is_named_has_to_be_there_and_readable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_settings({"KSHUNT_SETTINGS": str(tmp_path / "none.toml")})
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings({"KSHUNT_SETTINGS": str(tmp_path / "bytes.toml")})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings({"KSHUNT_SETTINGS": str(tmp_path)})


# Keys


@pytest.mark.parametrize(
    ("written", "key", "shown"),
    [
        ("F", "F", "F"),
        ("/", "slash", "/"),
        ("Ctrl-G", "ctrl+g", "Ctrl-G"),
        ("ctrl+g", "ctrl+g", "Ctrl-G"),
        ("PgDn", "pagedown", "PgDn"),
        ("Space", "space", "Space"),
        ("%", "percent_sign", "percent_sign"),
    ],
)
def test_keys_are_written_as_the_help_writes_them(written: str, key: str, shown: str) -> None:
    free = [action for action in ACTIONS if action.keys != (key,) and key not in action.keys]
    use_keys(free, {"follow": [written]})
    assert key_of("follow") in (shown, key_name(key))
    assert next(a for a in actions_of(PARTITIONS) if a.id == "follow").keys == (key,)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"jump": ["J"]}, "there is no such action"),
        ({"follow": ["F99"]}, "'F99' is not a key"),
        ({"follow": ["c"]}, "both have the key c"),
        ({"brokers": ["2"]}, "both have the key 2"),
    ],
)
def test_keys_that_cannot_be_used_are_named(keys: dict[str, list[str]], words: str) -> None:
    before = [action.keys for action in actions_of(PARTITIONS)]
    with pytest.raises(ConfigError, match=words):
        use_keys(ACTIONS, keys)
    assert [action.keys for action in actions_of(PARTITIONS)] == before


def test_every_action_has_a_name_of_its_own() -> None:
    names = [action.name for action in ACTIONS]
    assert len(names) == len(set(names))
    assert all(name.isascii() and " " not in name for name in names)


async def test_chosen_keys_work_and_are_shown_everywhere(tmp_path: Path) -> None:
    use_keys(ACTIONS, {"follow": ["J"], "down": ["n", "down"], "brokers": ["b"]})
    async with dashboard(tmp_path / "s", incident()) as shown:
        assert "J follow" in shown.lines()[-1]
        await shown.press("f")
        assert "following" not in shown.frame()
        await shown.press("J", "n", "j", "n")
        assert "following" in shown.frame()
        assert shown.grid.cursor_row == 2
        await shown.press("b")
        assert shown.app.current_mode == BROKERS


async def test_texts_that_name_a_key_name_the_chosen_one(tmp_path: Path) -> None:
    keys = {"throttles": ["I"], "adopt": ["Z"], "follow": ["J"], "brokers": ["ctrl-g"]}
    use_keys(ACTIONS, keys)
    assert [view_key(view) for view in VIEWS] == ["1", "2", "Ctrl-G", "I", "5", "6", "7"]
    size = (100, 40)
    async with dashboard(tmp_path / "s", incident(), size=size, start_view="overview") as shown:
        await shown.until(lambda: "6 moves of others" in shown.frame(), "they are pointed out")
        (line,) = [text for text in shown.lines() if "6 moves of others" in text]
        assert line.endswith("I Z")
        assert " I Throttles " in shown.lines()[2] or " I Throttles " in shown.frame()
        await shown.press("I")
        await shown.until(lambda: "Z shows what they are" in shown.frame(), "and here")


def test_every_key_in_a_sentence_is_the_chosen_one() -> None:
    paused = replace(running_move(incident()), state=OperationState.PAUSED)
    store = Store(lambda: 0.0, Scene(operations=(paused,)))
    (item,) = attention(store)
    assert "5, then p, resumes it" in item.text
    use_keys(ACTIONS, {"operations": ["o"], "pause": ["P"], "sort_choose": ["Z"]})
    (item,) = attention(store)
    assert "o, then P, resumes it" in item.text
    assert item.target is not None
    assert item.target.keys == "o P"


def test_the_settings_file_reaches_a_real_terminal(tmp_path: Path) -> None:
    """Mistakes in it end the start with words, and not with a traceback."""
    path = tmp_path / "s.toml"
    path.write_text('[keys]\nfollow = "q"\n')
    command = (sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'none'}")
    environ = {"KSHUNT_SETTINGS": str(path)}
    with terminal(command, environ) as shown:
        shown.until(rb"kshunt: .*\[keys\] quit and follow|\[keys\] follow and quit", 60.0)
        assert b"Traceback" not in shown.written
        assert shown.ended(10.0) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("theme = ", rb"not valid TOML"),
        ('theme = "none"', rb"There is no theme 'none'"),
        ('[keys]\nnone = "q"', rb"\[keys\] none: there is no such action"),
    ],
)
def test_a_mistake_names_the_file_and_the_way_to_start_without_it(
    tmp_path: Path, text: str, words: bytes
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    command = (sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'none'}")
    environ = {"KSHUNT_SETTINGS": str(path)}
    with terminal(command, environ) as shown:
        shown.until(words, 60.0)
        assert shown.ended(10.0) == 1
        said = b"".join(shown.written.split())
        assert said.startswith(b"kshunt:" + str(path).encode())
        assert said.endswith(b"KSHUNT_SETTINGS=/dev/nullkshunt...")


def test_a_mistake_is_said_before_a_cluster_is_started(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("theme = ")
    command = (sys.executable, "-m", "kshunt", "demo")
    with terminal(command, {"KSHUNT_SETTINGS": str(path)}) as shown:
        shown.until(rb"not valid TOML", 60.0)
        assert shown.ended(10.0) == 1
        assert b"Starting a cluster" not in shown.written


def test_the_settings_file_is_read_once(tmp_path: Path) -> None:
    """A pipe can be read once: a process that opens it again waits for ever."""
    path = tmp_path / "s.toml"
    os.mkfifo(path)
    command = (sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'none'}")

    def say() -> None:
        path.write_text('start_view = "brokers"\nrecord = false\n')

    writer = threading.Thread(target=say, daemon=True)
    writer.start()
    with terminal(command, {"KSHUNT_SETTINGS": str(path)}) as shown:
        shown.until(rb"3 Brokers", 60.0)
        writer.join(10.0)
        assert not writer.is_alive()


MOUSE_ON, MOUSE_OFF = rb"\x1b\[\?1000h", rb"\x1b\[\?1000l"


@pytest.mark.parametrize(("file", "flags"), [("", ["--no-mouse"]), ("mouse = false\n", [])])
def test_the_terminal_keeps_its_mouse(tmp_path: Path, file: str, flags: list[str]) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f"record = false\n{file}")
    command = (sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'none'}", *flags)
    with terminal(command, {"KSHUNT_SETTINGS": str(path)}) as shown:
        shown.until(rb"No backend answers", 60.0)
        assert re.search(MOUSE_ON, shown.written) is None


def test_the_mouse_is_given_back_and_taken_while_the_dashboard_runs(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("record = false\n")
    command = (sys.executable, "-m", "kshunt", "--backend", f"unix:{tmp_path / 'none'}")
    with terminal(command, {"KSHUNT_SETTINGS": str(path)}) as shown:
        shown.until(rb"No backend answers", 60.0)
        shown.until(MOUSE_ON, 10.0)
        shown.press(b"\x13")
        shown.until(rb"Enter changes it", 60.0)
        shown.press(b"j" * list(named_values(DashboardSettings())).index("mouse"))
        shown.until(rb"terminal selects", 60.0)
        shown.press(b"\r")
        shown.until(MOUSE_OFF, 60.0)
        before = len(re.findall(MOUSE_ON, shown.written))
        shown.until(rb"in force now", 60.0)
        assert not parse_settings(path.read_text()).mouse
        shown.press(b"\r")
        shown.until(MOUSE_OFF + rb"(?s:.*)" + MOUSE_ON, 60.0)
        assert len(re.findall(MOUSE_ON, shown.written)) == before + 1


# Themes


def own_theme(folder: Path, name: str, background: str) -> Path:
    """Write one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(OWN.format(name=name, background=background))
    return path


async def background_of(shown: Shown) -> str:
    """The colour behind the table, as it is painted."""
    await shown.pilot.pause()
    return shown.view.styles.background.hex.lower()


async def test_a_theme_is_read_again_while_it_is_worn(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    path = own_theme(folder, "mine", "#101010")
    async with dashboard(
        tmp_path / "s", incident(), theme="mine", themes=ThemeFolder(folder)
    ) as shown:
        assert await background_of(shown) == "#101010"
        path.write_text(OWN.format(name="mine", background="#303030"))
        await shown.app.themes.look()
        assert "mine was read again" in shown.said
        assert await background_of(shown) == "#303030"
        path.write_text('name = "mine"\nprimary = "nonsense"\n')
        await shown.app.themes.look()
        assert "Theme mine.toml cannot be used" in shown.said
        assert await background_of(shown) == "#303030", "what was shown stays"
        path.unlink()
        await shown.app.themes.look()
        assert await background_of(shown) == "#303030"


async def test_a_theme_is_chosen_from_a_list(tmp_path: Path) -> None:
    own_theme(tmp_path / "themes", "mine", "#404040")
    async with dashboard(
        tmp_path / "s", incident(), themes=ThemeFolder(tmp_path / "themes")
    ) as shown:
        await shown.press("ctrl+t")
        chooser = await shown.dialog(ChooseScreen)
        names = shown.app.themes.names
        assert {"mine", "midnight", "daylight", "contrast", "mono", "ansi"} <= set(names)
        steps = names.index("mine") - names.index(shown.app.theme)
        await shown.press(*(["j"] * steps if steps > 0 else ["k"] * -steps), "enter")
        assert chooser is not shown.app.screen
        await shown.until(lambda: shown.app.theme == "mine", "it is worn")


async def test_a_broken_theme_is_said_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    (folder / "broken.toml").write_text("name = ")
    async with dashboard(tmp_path / "s", incident(), themes=ThemeFolder(folder)) as shown:
        assert "Theme broken.toml cannot be used" in shown.said


async def test_a_theme_that_is_not_there_is_an_error_that_lists_the_others(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no theme 'none'.*midnight"):
        async with dashboard(tmp_path / "s", incident(), theme="none"):
            pass


def test_every_view_has_a_place_in_the_settings() -> None:
    for view in VIEWS:
        assert parse_settings(f'start_view = "{view}"').start_view == view


async def test_a_terminal_of_sixteen_colours_offers_its_own_alone(tmp_path: Path) -> None:
    own_theme(tmp_path / "themes", "mine", "#404040")
    folder = ThemeFolder(tmp_path / "themes")
    async with dashboard(tmp_path / "s", incident(), plain=True, themes=folder) as shown:
        assert "ansi" in shown.app.themes.names
        assert not {"mine", "midnight"} & set(shown.app.themes.names)


# What an operator chooses on the screens


async def test_a_theme_and_an_order_that_are_chosen_are_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.toml"

    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(path, name, value)

    async with dashboard(tmp_path / "s", incident(), keep=keep) as shown:
        await shown.press("s", "S")
        order = shown.app.store.queries[PARTITIONS].order
        assert order.levels
        await shown.press("ctrl+t")
        assert isinstance(shown.app.screen, ChooseScreen)
        await shown.press("j", "enter")
        theme = shown.app.theme
        await shown.until(lambda: parse_settings(path.read_text()).theme == theme, "it is kept")
    settings = parse_settings(path.read_text())
    assert settings.sort == {PARTITIONS: order}
    socket, orders = tmp_path / "s", settings.sort
    async with dashboard(socket, incident(), theme=settings.theme, orders=orders) as shown:
        assert shown.app.theme == theme
        assert shown.app.store.queries[PARTITIONS].order == order
        assert shown.grid.table is not None
        assert shown.grid.table.order == order


async def test_what_cannot_be_kept_is_said_and_applied_all_the_same(tmp_path: Path) -> None:
    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(tmp_path, name, value)

    async with dashboard(tmp_path / "s", incident(), keep=keep) as shown:
        await shown.press("s")
        await shown.until(lambda: "partitions was not kept" in shown.lines()[-1], "it is said")
        assert shown.app.store.queries[PARTITIONS].order.levels


async def test_an_order_by_a_column_that_is_not_there_is_said(tmp_path: Path) -> None:
    order = Order("colour", then=(Level("lag_bytes", reverse=True),))
    async with dashboard(tmp_path / "s", incident(), orders={PARTITIONS: order}) as shown:
        assert "by colour: there is no such column" in shown.lines()[-1]
        assert shown.app.store.queries[PARTITIONS].order == Order("lag_bytes", reverse=True)
