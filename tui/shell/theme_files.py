"""Themes are TOML files: those of `themes/`, and an operator's own, read again when they change.

A file that cannot be used is named in the error, and what was shown before stays.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from textual.color import Color, ColorParseError
from textual.theme import Theme

from kshunt.backend.errors import ConfigError

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
    "heat-1": "ansi_default",
    "heat-2": "ansi_default",
    "heat-3": "ansi_cyan",
    "heat-4": "ansi_cyan",
    "heat-5": "ansi_bright_cyan",
}
"""Our own variables, for themes that do not set them, such as Textual's."""
_HEAT: Final = {"heat-1": -0.6, "heat-2": -0.3, "heat-3": 0.0, "heat-4": 0.3, "heat-5": 0.6}
"""Where each colour of a gradient lies: the background is -1, what is strong 0, the text 1."""


@cache
def builtin_themes() -> tuple[Theme, ...]:
    """The themes that are shipped."""
    found = sorted(files("kshunt.themes").iterdir(), key=lambda entry: entry.name)
    return tuple(
        parse_theme(entry.read_text("utf-8"), entry.name)
        for entry in found
        if entry.name.endswith(".toml")
    )


@dataclass(frozen=True, slots=True)
class ThemeNews:
    """What has changed in the folder of an operator's own themes."""

    themes: tuple[Theme, ...] = ()
    """Those that are new or different."""
    problems: tuple[str, ...] = ()
    """One sentence for each file that cannot be used."""


class ThemeFolder:
    """An operator's own themes; `look` tells what has changed since the last look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}
        """By file: when it was written, and its size."""

    def look(self) -> ThemeNews:
        """Read what is new or different; may wait for a disk."""
        found = dict(self._files())
        fresh = [path for path in sorted(found) if self._seen.get(path) != found[path]]
        self._seen = found
        themes, problems = [], []
        for path in fresh:
            try:
                themes.append(parse_theme(path.read_text("utf-8"), path.name))
            except ConfigError as error:
                problems.append(error.message)
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"Theme {path.name} cannot be read: {error}.")
        return ThemeNews(tuple(themes), tuple(problems))

    def _files(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        try:
            entries = sorted(self.folder.glob("*.toml"))
        except OSError:
            return
        for path in entries:
            try:
                status = path.stat()
            except OSError:
                # It went away between the two looks.
                continue
            yield path, (status.st_mtime_ns, status.st_size)


def parse_theme(text: str, name: str) -> Theme:
    """A theme from its file.

    Raises:
        ConfigError: the file is no TOML, or no theme, or a colour in it is none.
    """
    try:
        document = tomllib.loads(text)
        theme = Theme(**_checked(document))
        theme.to_color_system().generate()
        theme.variables = {**_gradient(theme), **theme.variables}
    except (tomllib.TOMLDecodeError, TypeError, ColorParseError) as error:
        raise ConfigError(f"Theme {name} cannot be used: {error}.") from None
    return theme


def _gradient(theme: Theme) -> dict[str, str]:
    """Colours from a little to the most, between those of the theme."""
    strong = theme.variables.get("tone-strong", "")
    if theme.ansi or not (strong and theme.background and theme.foreground):
        return {}
    middle, low, high = map(Color.parse, (strong, theme.background, theme.foreground))
    if any(color.ansi is not None for color in (middle, low, high)):
        return {}
    return {
        name: middle.blend(high if place > 0 else low, abs(place)).hex
        for name, place in _HEAT.items()
    }


def _checked(document: Mapping[str, Any]) -> dict[str, Any]:
    named = document.get("variables", {})
    if not isinstance(named, dict):
        raise TypeError("variables must be a table: [variables]")
    wrong = [key for key, value in document.items() if not isinstance(value, _KINDS.get(key, str))]
    if wrong:
        raise TypeError(f"{wrong[0]} has a value of the wrong kind")
    variables = {str(key): str(value) for key, value in named.items()}
    for key, value in variables.items():
        if key in TONE_DEFAULTS:
            Color.parse(value)
    return {**document, "variables": variables}


_KINDS: Final[Mapping[str, type[Any] | tuple[type[Any], ...]]] = {
    "dark": bool,
    "ansi": bool,
    "variables": dict,
    "luminosity_spread": (int, float),
    "text_alpha": (int, float),
}
