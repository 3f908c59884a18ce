"""`kshunt` where no cluster is named: the chooser on a screen of its own."""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar

from textual.events import Resize

from kshunt.tui.dialogs.contexts import ContextsScreen
from kshunt.tui.shell.contexts import ClusterChoice, Contexts
from kshunt.tui.shell.theme_files import TONE_DEFAULTS, ThemeFolder
from kshunt.tui.shell.theme_manager import ThemeManager
from kshunt.tui.terminal.input import InputApp
from kshunt.tui.terminal.size_classes import size_classes
from kshunt.tui.text.glyphs import UNICODE, Glyphs


class ChooserApp(InputApp):
    """Tells `contexts` what to open, and ends."""

    TITLE = "kshunt"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["css/frame.tcss", "css/dialogs.tcss"]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        contexts: Contexts,
        *,
        plain: bool = False,
        theme: str = "",
        themes: ThemeFolder | None = None,
        glyphs: Glyphs = UNICODE,
    ) -> None:
        """As `kshunt.tui.app.KshuntApp`.

        Raises:
            ConfigError: there is no theme of that name.
        """
        super().__init__(ansi_color=True if plain else None)
        self._contexts = contexts
        self.animation_level = "none"
        ThemeManager(self, themes, plain=plain).open(theme)
        self.set_class(not glyphs.spark, "-ascii")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that do not name them."""
        return TONE_DEFAULTS

    def on_resize(self, event: Resize) -> None:
        """Say in classes how large the terminal is."""
        self.update_classes(size_classes(event.size), animate=False)

    def on_mount(self) -> None:
        """Ask, once the whole screen was drawn: the list covers a part of it."""
        self.call_after_refresh(self._ask)

    def _ask(self) -> None:
        self.push_screen(ContextsScreen(self._contexts, leaves=True), self._chosen)

    def _chosen(self, choice: ClusterChoice | None) -> None:
        if choice is not None:
            self._contexts.open(choice)
        self.exit()
