"""One of the themes; each is shown while the cursor is on it."""

from __future__ import annotations

from textual import on
from textual.widgets import OptionList

from kshunt.tui.dialogs.choose import ChooseScreen
from kshunt.tui.shell.theme_manager import ThemeManager


class ThemeScreen(ChooseScreen):
    """Answers with the theme, which is applied by then; or None, and the former one is applied."""

    def __init__(self, themes: ThemeManager, present: str) -> None:
        super().__init__("Theme", [(name, name) for name in themes.names], present)
        self._themes = themes

    @on(OptionList.OptionHighlighted)
    def _try(self, event: OptionList.OptionHighlighted) -> None:
        self._wear(self._choices[event.option_index][0])

    def _wear(self, name: str) -> None:
        if self.app.theme != name:
            self._themes.wear(name)

    def action_close(self) -> None:
        """Close with the theme from before."""
        self._wear(self._present)
        super().action_close()
