"""The row of views, and what the one in sight shows of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.message import Message
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

    class Clicked(Message):
        """The mouse chose a view."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

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
        line = Text("", no_wrap=True, end="")
        for view, words in self._fitting():
            style = "tabs--here" if view == self._view else "tabs--key"
            line.append(words, self.get_component_rich_style(style, partial=True))
        room = self.size.width - cell_len(line.plain) - 1
        if room > 10 and self._note:
            note = fit(printable(self._note), room, self._glyphs).rstrip()
            line.append(" " * (room - cell_len(note)))
            line.append(note, self.get_component_rich_style("tabs--note", partial=True))
        return line

    def on_click(self, event: events.Click) -> None:
        """Go to the view under the mouse."""
        begins = 0
        for view, words in self._fitting():
            if begins <= event.x < begins + cell_len(words):
                self.post_message(self.Clicked(view))
            begins += cell_len(words)

    def _fitting(self) -> list[tuple[str, str]]:
        """Each view and its words, in the widest form for which there is room."""
        need = cell_len(self._note) + 2 if self._note else 0
        forms = [self._tabs(form) for form in _FORMS]
        room = self.size.width - need
        fitting = (one for one in forms if sum(cell_len(words) for _, words in one) <= room)
        return next(fitting, forms[-1])

    def _tabs(self, form: Callable[[Title], str]) -> list[tuple[str, str]]:
        found = []
        for view, titles in TITLES.items():
            title = form(titles) or (titles.short if view == self._view else "")
            found.append((view, f" {view_key(view)} {title} ".replace("  ", " ")))
        return found
