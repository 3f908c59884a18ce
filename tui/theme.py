"""Themes are TOML files in `themes/`; a file that cannot be used is named in the error."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from textual.color import ColorParseError
from textual.theme import Theme

from backend.errors import ConfigError

DEFAULT: Final = "midnight"
ANSI: Final = "ansi"
TONE_DEFAULTS: Final = {
    "tone-good": "ansi_green",
    "tone-warn": "ansi_yellow",
    "tone-bad": "ansi_red",
    "tone-strong": "ansi_cyan",
    "tone-dim": "ansi_default",
    "bar-foreground": "ansi_default",
    "bar-background": "ansi_default",
    "cursor-foreground": "ansi_black",
    "cursor-background": "ansi_cyan",
}
"""Our own variables, for themes that do not set them, such as Textual's."""


def builtin_themes() -> Iterator[Theme]:
    """The themes that are shipped."""
    for entry in sorted(files("themes").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield parse_theme(entry.read_text("utf-8"), entry.name)


def parse_theme(text: str, name: str) -> Theme:
    """A theme from its file.

    Raises:
        ConfigError: the file is no TOML, or no theme, or a colour in it is none.
    """
    try:
        document = tomllib.loads(text)
        theme = Theme(**_checked(document))
        theme.to_color_system().generate()
    except (tomllib.TOMLDecodeError, TypeError, ColorParseError) as error:
        raise ConfigError(f"Theme {name} cannot be used: {error}.") from None
    return theme


def _checked(document: Mapping[str, Any]) -> dict[str, Any]:
    variables = {str(key): str(value) for key, value in document.get("variables", {}).items()}
    return {**document, "variables": variables}
