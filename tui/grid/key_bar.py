"""The last line: the keys that matter here, or a message until the next key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.widget import Widget

from kshunt.tui.actions import Action, footer_key
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs


class KeyBar(Widget):
    """At most six keys; a message takes their place while it is news."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "keybar--key",
        "keybar--off",
        "keybar--good",
        "keybar--warn",
        "keybar--bad",
    }

    def __init__(self, *, read_only: bool, glyphs: Glyphs) -> None:
        super().__init__()
        self._actions: tuple[Action, ...] = ()
        self._read_only = read_only
        self._glyphs = glyphs
        self._message = ""
        self._tone = ""

    @property
    def message(self) -> str:
        """What is said now, or empty."""
        return self._message

    def offer(self, actions: Sequence[Action]) -> None:
        """Show these keys."""
        if tuple(actions) != self._actions:
            self._actions = tuple(actions)
            self.refresh()

    def say(self, text: str, tone: str = "") -> None:
        """Show a message in place of the keys; an empty one brings the keys back."""
        if (text, tone) != (self._message, self._tone):
            self._message, self._tone = text, tone
            self.refresh()

    def render(self) -> Text:
        """The message, or the keys."""
        if self._message:
            style = (
                self.get_component_rich_style(f"keybar--{self._tone}", partial=True)
                if self._tone
                else ""
            )
            return Text(fit(" " + printable(self._message), self.size.width, self._glyphs), style)
        line = Text(" ", no_wrap=True, overflow="crop", end="")
        for action in self._actions:
            off = self._read_only and action.changes
            key = "keybar--off" if off else "keybar--key"
            style = self.get_component_rich_style(key, partial=True)
            line.append(footer_key(action), style)
            line.append(f" {action.hint}  ")
        return line
