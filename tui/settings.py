"""The dashboard's settings file, and the folder of an operator's own themes.

`$XDG_CONFIG_HOME/kshunt/dashboard.toml` (or the file that KSHUNT_SETTINGS names)::

    theme = "daylight"
    start_view = "partitions"
    read_only = true

    [keys]
    follow = "F"
    cancel_all = ["C", "Ctrl-X"]

What a flag says goes before what the file says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kshunt.backend.errors import ConfigError
from kshunt.tui.actions.view_names import OVERVIEW, VIEWS

FILE = "dashboard.toml"


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How an operator likes the dashboard."""

    theme: str = ""
    """The name of a theme; empty for the one that is shipped as the default."""
    start_view: str = OVERVIEW
    """One of `kshunt.tui.actions.view_names.VIEWS`."""
    read_only: bool = False
    record: bool = True
    """Whether what is seen and done is recorded, for `kshunt replay`."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By an action's name: its keys, in the place of its own."""


def config_folder(environ: Mapping[str, str]) -> Path:
    """Where an operator's own files are: `$XDG_CONFIG_HOME/kshunt`, or below `~/.config`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
    return root / "kshunt"


def load_settings(environ: Mapping[str, str]) -> DashboardSettings:
    """What the settings file says; the defaults where there is none.

    Raises:
        ConfigError: the file that KSHUNT_SETTINGS names is not there, or the file cannot be read,
            is no TOML, or says something that means nothing here.
    """
    named = environ.get("KSHUNT_SETTINGS", "")
    path = Path(named).expanduser() if named else config_folder(environ) / FILE
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if named:
            raise ConfigError(f"{path}: there is no such file.", advice=_UNSET) from None
        return DashboardSettings()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None
    try:
        return parse_settings(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", advice=error.advice) from None


_UNSET = "Unset KSHUNT_SETTINGS, or write the file."


def parse_settings(text: str) -> DashboardSettings:
    """Settings from their file's text.

    Raises:
        ConfigError: it is no TOML, or a name or a value in it means nothing here.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"no TOML: {error}.") from None
    known = {one.name for one in fields(DashboardSettings)}
    for name in document:
        if name not in known:
            raise ConfigError(f"there is no setting '{name}'.", advice=f"There are {_list(known)}.")
    return DashboardSettings(
        theme=_typed(document, "theme", str, ""),
        start_view=_view(document),
        read_only=_typed(document, "read_only", bool, False),
        record=_typed(document, "record", bool, True),
        keys={name: _keys(name, value) for name, value in _table(document, "keys").items()},
    )


def _typed(document: Mapping[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    value = document.get(name, default)
    if not isinstance(value, kind):
        wanted = {str: "a text in quotes", bool: "true or false"}[kind]
        raise ConfigError(f"{name} has to be {wanted}, and not {value!r}.")
    return value


def _view(document: Mapping[str, Any]) -> str:
    view: str = _typed(document, "start_view", str, OVERVIEW)
    if view not in VIEWS:
        raise ConfigError(f"start_view: there is no view '{view}'.", advice=_list(VIEWS))
    return view


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{name} has to be a table: [{name}].")
    return value


def _keys(action: str, value: object) -> tuple[str, ...]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, list) or not written:
        raise ConfigError(f"[keys] {action}: a key, or a list of keys, and not {value!r}.")
    if not all(isinstance(one, str) and one.strip() for one in written):
        raise ConfigError(f"[keys] {action}: each key is a text in quotes.")
    return tuple(written)


def _list(names: Any) -> str:
    return ", ".join(sorted(names))
