"""One of a few: move, Enter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.text.fitting import printable


class ChooseScreen(Dialog[str]):
    """Answers with the key of the choice, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]], present: str = "") -> None:
        super().__init__(title)
        self._choices = tuple(choices)
        self._present = present

    def compose_body(self) -> Iterable[Widget]:
        """The choices."""
        yield DialogOptionList(
            *(Option(Text(printable(name))) for _, name in self._choices), compact=True
        )
        yield Lines("Enter chooses, Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Begin at the present choice."""
        choices = self.query_one(DialogOptionList)
        keys = [key for key, _ in self._choices]
        choices.highlighted = keys.index(self._present) if self._present in keys else 0
        choices.focus()

    def action_move(self, rows: int) -> None:
        """Move as the arrow keys do."""
        self.query_one(DialogOptionList).move(rows)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][0])
