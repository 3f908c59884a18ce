"""`kshunt config`, with the dashboard's own settings file, which the dashboard's modules know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshunt.backend.config_file import Setting
from kshunt.backend.errors import ConfigError
from kshunt.backend.tools.config import COMMAND, DEFAULT, OwnFile
from kshunt.backend.tools.config import main as config

__all__ = ["COMMAND", "dashboard_file", "main"]


def main(argv: Sequence[str]) -> int:
    """Show everything; the exit code."""
    return config(argv, dashboard_file)


def dashboard_file(environment: Mapping[str, str]) -> OwnFile:
    """What the dashboard's settings file says, and the defaults of what it does not say."""
    from kshunt.tui.settings import load_settings, named_values, settings_path

    path = settings_path(environment)
    try:
        found = load_settings(environment)
    except ConfigError as error:
        return OwnFile(str(path), path.exists(), problem=f"{error.message} {error.advice}".strip())
    settings = (
        Setting(name, value, str(path) if name in found.written else DEFAULT)
        for name, value in named_values(found).items()
    )
    return OwnFile(str(path), path.exists(), tuple(settings))
