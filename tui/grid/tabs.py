"""The row of views, and what the one in sight shows of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from kshunt.tui.actions import view_key
from kshunt.tui.actions.view_names import TITLES, Title
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

_FORMS: Final[tuple[Callable[[Title], str], ...]] = (
    lambda title: title.full,
    lambda title: title.short,
    lambda title: "",
)
"""From the widest to the narrowest."""


class ViewTabs(Widget):
    """One line: ` 1 Partitions  2 Brokers ...      12 of 1,204 replicas, by lag`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tabs--here", "tabs--key", "tabs--note"}

    def __init__(self, view: str, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._view = view
        self._glyphs = glyphs
        self._note = ""

    @property
    def note(self) -> str:
        """What is said about the rows."""
        return self._note

    def show_note(self, note: str) -> None:
        """Say something about the rows."""
        if note != self._note:
            self._note = note
            self.refresh()

    def render(self) -> Text:
        """The line: full titles, short ones, or numbers alone, as the note leaves room."""
        need = cell_len(self._note) + 2 if self._note else 0
        forms = [self._tabs(form) for form in _FORMS]
        line = next(
            (tabs for tabs in forms if cell_len(tabs.plain) + need <= self.size.width), forms[-1]
        )
        room = self.size.width - cell_len(line.plain) - 1
        if room > 10 and self._note:
            note = fit(printable(self._note), room, self._glyphs).rstrip()
            line.append(" " * (room - cell_len(note)))
            line.append(note, self.get_component_rich_style("tabs--note", partial=True))
        return line

    def _tabs(self, form: Callable[[Title], str]) -> Text:
        line = Text("", no_wrap=True, end="")
        for view, titles in TITLES.items():
            here = view == self._view
            title = form(titles) or (titles.short if here else "")
            style = "tabs--here" if here else "tabs--key"
            line.append(
                f" {view_key(view)} {title} ".replace("  ", " "),
                self.get_component_rich_style(style, partial=True),
            )
        return line
