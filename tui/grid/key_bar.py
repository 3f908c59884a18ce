"""The last line: the keys that matter here, or a message until the next key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from kshunt.tui.actions import Action, footer_key
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

GAP: Final = "  "
"""Between two keys."""


class KeyBar(Widget):
    """At most six keys; a message takes their place while it is news."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "keybar--key",
        "keybar--off",
        "keybar--good",
        "keybar--warn",
        "keybar--bad",
    }

    class Clicked(Message):
        """The mouse chose a key, or the message that hides them."""

        def __init__(self, action: str) -> None:
            """`action`: the id of what the key does; empty for the message."""
            super().__init__()
            self.action = action

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
            line.append(f" {action.hint}{GAP}")
        return line

    def on_click(self, event: events.Click) -> None:
        """Do what the key under the mouse does."""
        if self._message:
            self.post_message(self.Clicked(""))
        elif action := action_at(self._actions, event.x):
            self.post_message(self.Clicked(action))


def action_at(actions: Sequence[Action], x: int) -> str:
    """The id of the action whose key or word is in this cell; empty between two of them.

    Of `+/- step`, the second key does the reverse.
    """
    begins = 1
    for action in actions:
        key = footer_key(action)
        ends = begins + cell_len(f"{key} {action.hint}")
        if begins <= x < ends:
            reverse = begins + cell_len(key.partition("/")[0]) < x < begins + cell_len(key)
            return action.opposite if action.opposite and reverse else action.id
        begins = ends + len(GAP)
    return ""
