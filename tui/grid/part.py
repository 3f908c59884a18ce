"""A part of a view: lines in a frame with a title, brighter where the keys go."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widget import Widget

from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.text.glyphs import Glyphs


class Part(Widget):
    """The frame; what is in it are `SelectableLines`."""

    def __init__(self, name: str, *, glyphs: Glyphs) -> None:
        super().__init__(id=f"part-{name}", classes="part")
        self.part = name
        self._glyphs = glyphs
        self._facts: object = None
        self._look: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """The lines."""
        yield SelectableLines(glyphs=self._glyphs, id=self.part)

    @property
    def lines(self) -> SelectableLines:
        """What is in the frame."""
        return self.query_one(SelectableLines)

    def is_new(self, facts: object, look: tuple[object, ...], *, soon: bool) -> bool:
        """Whether its lines have to be made anew: in another way, or of facts that are not `soon`
        after the last ones."""
        if look == self._look and (soon or facts is self._facts):
            return False
        self._facts, self._look = facts, look
        return True

    def title(self, text: str) -> None:
        """Say what it is about."""
        if self.border_title != text:
            self.border_title = text
