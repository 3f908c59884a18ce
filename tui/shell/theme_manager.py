"""Which theme the dashboard has: those that are shipped, an operator's own, read anew as they
change, and the one that is chosen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kshunt.backend.errors import ConfigError
from kshunt.tui.shell.theme_files import ANSI, DEFAULT, ThemeFolder, ThemeNews, builtin_themes
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.theme import Theme

    from kshunt.tui.terminal.input import InputApp

LOOK_S: Final = 2.0
"""How often the folder of an operator's own themes is looked at."""


class ThemeManager:
    """Registers themes with the app, and puts one on."""

    def __init__(
        self,
        app: InputApp,
        folder: ThemeFolder | None,
        *,
        plain: bool,
        say: Callable[[str, str], object] | None = None,
    ) -> None:
        """`plain` leaves the terminal its own colours, whatever theme is wanted.

        `say` takes a text and its tone: what became of the operator's own themes.
        """
        self.plain = plain
        self._told = say
        self._app = app
        self._folder = folder
        self._news = ThemeNews()
        self._ours: dict[str, bool] = {}
        """By name: whether it leaves the terminal its own colours."""

    def open(self, wanted: str) -> None:
        """Register every theme and put one on; empty is the default.

        Raises:
            ConfigError: there is no theme of that name.
        """
        app = self._app
        for shipped in builtin_themes():
            self._register(shipped)
        if self._folder is not None:
            self._news = self._folder.look()
            for own in self._news.themes:
                self._register(own)
        if wanted and wanted not in app.available_themes:
            why = f" {' '.join(self._news.problems)}" if self._news.problems else ""
            raise ConfigError(
                f"There is no theme '{wanted}'.{why}", advice=f"There are {', '.join(self.names)}."
            )
        app.theme = ANSI if self.plain else wanted or DEFAULT

    @property
    def names(self) -> list[str]:
        """What is offered here: ours and the operator's own; Textual's have other roles."""
        return sorted(name for name, ansi in self._ours.items() if ansi or not self.plain)

    def _register(self, theme: Theme) -> None:
        self._app.register_theme(theme)
        self._ours[theme.name] = theme.ansi

    def watch(self) -> None:
        """Say what could not be read, and look again from time to time."""
        self._say(self._news)
        if self._folder is not None:
            self._app.set_interval(LOOK_S, self._look_soon)

    def _look_soon(self) -> None:
        run_latest(self._app, self.look, "themes")

    async def look(self) -> None:
        """Read what has changed in the folder; the theme in use is applied anew."""
        if self._folder is None:
            return
        app, news = self._app, await asyncio.to_thread(self._folder.look)
        for theme in news.themes:
            self._register(theme)
            if theme.name == app.theme:
                self.wear(theme.name)
                self._tell(f"Theme {theme.name} was read again.", "good")
        self._say(news)

    def wear(self, name: str) -> None:
        """Apply a theme; the one in use may look different by now."""
        app = self._app
        if app.theme == name:
            app.theme = ANSI if name != ANSI else DEFAULT
        app.theme = name

    def _say(self, news: ThemeNews) -> None:
        for problem in news.problems:
            self._tell(f"{problem} The previous theme stays.", "warn")

    def _tell(self, text: str, tone: str) -> None:
        if self._told is not None:
            self._told(text, tone)
