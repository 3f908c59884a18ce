"""The row of views, and what the one in sight shows of its rows."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from tui.text import Glyphs, fit, printable

TITLES = {
    "partitions": "Partitions",
    "brokers": "Brokers",
    "throttles": "Throttles",
    "operations": "Operations",
}


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
        """The line."""
        line = Text("", no_wrap=True, end="")
        for number, (view, title) in enumerate(TITLES.items(), 1):
            here = view == self._view
            style = self.get_component_rich_style(
                "tabs--here" if here else "tabs--key", partial=True
            )
            line.append(f" {number} {title} ", style)
        room = self.size.width - cell_len(line.plain) - 1
        if room > 10 and self._note:
            note = fit(printable(self._note), room, self._glyphs).rstrip()
            line.append(" " * (room - cell_len(note)))
            line.append(note, self.get_component_rich_style("tabs--note", partial=True))
        return line
