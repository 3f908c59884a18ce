"""The dashboard's settings file, and the folder of an operator's own themes.

`$XDG_CONFIG_HOME/kshunt/dashboard.toml` (or the file that KSHUNT_SETTINGS names)::

    theme = "daylight"
    start_view = "partitions"
    read_only = true
    bell = true
    notification = "osc9"

    [keys]
    follow = "J"
    cancel_all = ["C", "Ctrl-X"]

    [sort]
    partitions = ["-lag", "topic"]

    [columns]
    partitions = ["size", "-role"]

A flag overrides the file. The dashboard writes a theme, an order, a choice of columns and what an
operator changes in the settings screen into it (`keep_setting`). Comments and everything else stay
as they are.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

from kshunt.backend.errors import ConfigError
from kshunt.backend.files import make_folder, replace_file
from kshunt.tui.actions.view_names import CHOSEN_TABLES, OVERVIEW, TABLES, VIEWS
from kshunt.tui.tables.column_choice import HIDES, ColumnChoice
from kshunt.tui.tables.model import Level, Order
from kshunt.tui.terminal.notices import NOTIFICATIONS

FILE = "dashboard.toml"
_WRITTEN = "written"

SettingValue: TypeAlias = str | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How an operator likes the dashboard."""

    theme: str = ""
    """The name of a theme; empty for the one that is shipped as the default."""
    start_view: str = OVERVIEW
    """One of `kshunt.tui.actions.view_names.VIEWS`."""
    all_partitions: bool = False
    """Whether the partitions view opens on every replica, and not on what moves or ails."""
    read_only: bool = False
    record: bool = True
    """Whether what is seen and done is recorded, for `kshunt replay`."""
    bell: bool = False
    """Whether the terminal rings when an operation ends."""
    notification: str = ""
    """How the terminal is asked to show a notification then: one of `NOTIFICATIONS`, or not."""
    title: bool = True
    """Whether the terminal's title says how far the moves are."""
    mouse: bool = True
    """Whether the mouse chooses tabs and rows; if not, the terminal selects text with it."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By an action's name: its keys, in the place of its own."""
    sort: Mapping[str, Order] = field(default_factory=dict)
    """By a view with a table: how it is sorted."""
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)
    """By one of `kshunt.tui.actions.view_names.CHOSEN_TABLES`: what an operator chose."""
    written: frozenset[str] = field(default=frozenset(), compare=False)
    """What the file says, by name: `theme`, `keys.follow`; the rest are defaults."""


def config_folder(environ: Mapping[str, str]) -> Path:
    """Where an operator's own files are: `$XDG_CONFIG_HOME/kshunt`, or below `~/.config`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
    return root / "kshunt"


def settings_path(environ: Mapping[str, str]) -> Path:
    """The settings file, whether it is there or not."""
    named = environ.get("KSHUNT_SETTINGS", "")
    return Path(named).expanduser() if named else config_folder(environ) / FILE


def load_settings(environ: Mapping[str, str]) -> DashboardSettings:
    """What the settings file says; the defaults where there is none.

    Raises:
        ConfigError: the file that KSHUNT_SETTINGS names is not there, or the file cannot be read,
            is no TOML, or says something that means nothing here.
    """
    path = settings_path(environ)
    text = _text_of(environ)
    with naming(path):
        return parse_settings(text)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in what is wrong with it, and say how to start without it.

    Raises:
        ConfigError: what is raised within.
    """
    try:
        yield
    except ConfigError as error:
        advice = " ".join(filter(None, (error.advice, WITHOUT)))
        raise ConfigError(f"{path}: {error.message}", advice=advice) from None


def _text_of(environ: Mapping[str, str]) -> str:
    """The text of the settings file; empty if the file does not exist."""
    path = settings_path(environ)
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        if environ.get("KSHUNT_SETTINGS", ""):
            raise ConfigError(f"{path}: there is no such file.", advice=_UNSET) from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", advice=WITHOUT) from None


WITHOUT: Final = "Repair the file, or start without it: KSHUNT_SETTINGS=/dev/null kshunt ..."
_UNSET = "Unset KSHUNT_SETTINGS, or write the file."


def parse_settings(text: str) -> DashboardSettings:
    """Settings from their file's text.

    Raises:
        ConfigError: it is no TOML, or a name or a value in it means nothing here.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}.") from None
    known = {one.name for one in fields(DashboardSettings)} - {_WRITTEN}
    for name in document:
        if name not in known:
            raise ConfigError(f"there is no setting '{name}'.", advice=f"There are {_list(known)}.")
    return DashboardSettings(
        theme=_typed(document, "theme", str, ""),
        start_view=_view(document),
        all_partitions=_typed(document, "all_partitions", bool, False),
        read_only=_typed(document, "read_only", bool, False),
        record=_typed(document, "record", bool, True),
        bell=_typed(document, "bell", bool, False),
        notification=_notification(document),
        title=_typed(document, "title", bool, True),
        mouse=_typed(document, "mouse", bool, True),
        keys={name: _keys(name, value) for name, value in _table(document, "keys").items()},
        sort={view: _order(view, value) for view, value in _table(document, "sort").items()},
        columns={
            table: _column_choice(table, value)
            for table, value in _table(document, "columns").items()
        },
        written=_written_names(document),
    )


def _written_names(document: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        f"{name}.{one}" if isinstance(value, dict) else name
        for name, value in document.items()
        for one in (value if isinstance(value, dict) else (name,))
    )


def named_values(settings: DashboardSettings) -> dict[str, SettingValue]:
    """Every setting by the name that `DashboardSettings.written` has for it."""
    plain = {
        one.name: getattr(settings, one.name)
        for one in fields(settings)
        if one.name not in ("keys", "sort", "columns", _WRITTEN)
    }
    keys = {f"keys.{name}": value for name, value in settings.keys.items()}
    sort = {f"sort.{view}": sort_value(order) for view, order in settings.sort.items()}
    columns = {f"columns.{table}": choice.words for table, choice in settings.columns.items()}
    return plain | keys | sort | columns


def sort_value(order: Order) -> tuple[str, ...]:
    """An order as the file has it: columns by key, `-` before one with the largest first."""
    return tuple(f"-{level.key}" if level.reverse else level.key for level in order.levels)


def keep_setting(path: Path, name: str, value: SettingValue | None) -> None:
    """Write one setting into the file; comments and everything else stay as they are.

    Another dashboard that writes at the same time waits, so that both settings are kept.

    Args:
        path: The file. It is made where it is not there.
        name: The setting, after its table and a dot where it is in one.
        value: What it is from now on. None takes it out.

    Raises:
        ConfigError: the file cannot be read, is not valid TOML, or cannot be written. It is as it
            was.
    """
    # Loaded when something is kept: it takes 30 ms that the first frame need not wait for.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    table, _, key = name.rpartition(".")
    try:
        file = path.resolve()
        if file.exists() and not file.is_file():
            raise ConfigError(f"{name} was not kept: {path} is not a file.")
        make_folder(path.parent)
        with _turn_in(file.parent):
            document = tomlkit.parse(file.read_text("utf-8") if file.exists() else "")
            if table and table not in document:
                document[table] = tomlkit.table()
            place: Any = document[table] if table else document
            if value is None:
                place.pop(key, None)
            else:
                place[key] = value
            replace_file(file, tomlkit.dumps(document).encode())
    except (OSError, UnicodeDecodeError, TOMLKitError, TypeError, AttributeError) as error:
        raise ConfigError(f"{name} was not kept: {path} cannot be changed: {error}.") from None


@contextmanager
def _turn_in(folder: Path) -> Iterator[None]:
    """Wait until no other dashboard changes a file of this folder. No file is made for it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A file system without locks keeps a setting all the same.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _typed(document: Mapping[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    value = document.get(name, default)
    if not isinstance(value, kind):
        wanted = {str: "a text in quotes", bool: "true or false"}[kind]
        raise ConfigError(f"{name} must be {wanted}, and not {value!r}.")
    return value


def _view(document: Mapping[str, Any]) -> str:
    view: str = _typed(document, "start_view", str, OVERVIEW)
    if view not in VIEWS:
        raise ConfigError(f"start_view: there is no view '{view}'.", advice=_list(VIEWS))
    return view


def _notification(document: Mapping[str, Any]) -> str:
    kind: str = _typed(document, "notification", str, "")
    if kind and kind not in NOTIFICATIONS:
        raise ConfigError(f"notification: there is no kind '{kind}'.", advice=_list(NOTIFICATIONS))
    return kind


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a table: [{name}].")
    return value


def _keys(action: str, value: object) -> tuple[str, ...]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, list) or not written:
        raise ConfigError(f"[keys] {action}: must be a key, or a list of keys, and not {value!r}.")
    if not all(isinstance(one, str) and one.strip() for one in written):
        raise ConfigError(f"[keys] {action}: each key must be a text in quotes.")
    return tuple(written)


def _order(view: str, value: object) -> Order:
    if view not in TABLES:
        raise ConfigError(f"[sort] {view}: there is no such table.", advice=_list(TABLES))
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ConfigError(f"[sort] {view} has to be a list of columns, and not {value!r}.")
    return Order.of([Level(one.removeprefix("-"), one.startswith("-")) for one in value])


def _column_choice(table: str, value: object) -> ColumnChoice:
    if table not in CHOSEN_TABLES:
        raise ConfigError(
            f"[columns] {table}: there is no such table.", advice=_list(CHOSEN_TABLES)
        )
    if not isinstance(value, list) or not all(
        isinstance(one, str) and one.removeprefix(HIDES) for one in value
    ):
        raise ConfigError(f"[columns] {table} has to be a list of columns, and not {value!r}.")
    choice = ColumnChoice.of_words(value)
    for key in choice.keys:
        if choice.keys.count(key) > 1:
            raise ConfigError(f"[columns] {table} names {key} more than once.")
    return choice


def _list(names: Any) -> str:
    return ", ".join(sorted(names))
