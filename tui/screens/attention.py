"""Everything that is wrong, in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from tui.screens.dialog import Dialog, Lines


class AttentionScreen(Dialog[None]):
    """The lines of which the head of the screen shows the first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q,exclamation_mark", "close", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("Attention")
        self._lines = tuple(lines)

    def compose_body(self) -> Iterable[Widget]:
        """The lines, the most urgent first."""
        with VerticalScroll(id="details"):
            for line in self._lines:
                yield Lines(f"! {line}", classes="effect")
            if not self._lines:
                yield Lines("Nothing is wrong, as far as the backend knows.")
        yield Lines("Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one("#details").focus()

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#details").scroll_relative(y=rows, animate=False)
