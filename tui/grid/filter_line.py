"""The filter line, and what can be typed next, below it."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

PLACEHOLDER = "topic, broker:3, moving, behind:>1000, eta:>10m, -throttled; Tab completes"
WORDS_PLACEHOLDER = "words that a row has, -word for rows without it"


class FilterLine(Input):
    """An input that is there only while it is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "Complete", show=False)]

    class CompletionWanted(Message):
        """The last word is to be made longer."""

    def __init__(self, id: str, *, fields: bool) -> None:
        """`fields` where a filter is more than words."""
        words = PLACEHOLDER if fields else WORDS_PLACEHOLDER
        super().__init__(id=id, placeholder=words, compact=True, select_on_focus=False)
        self.cursor_blink = False

    def action_complete(self) -> None:
        """Ask for the last word to be made longer."""
        self.post_message(self.CompletionWanted())

    def put(self, text: str) -> None:
        """Another text, with the cursor behind it."""
        self.value = text
        self.cursor_position = len(text)
