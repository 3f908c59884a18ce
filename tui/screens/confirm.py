"""The one question before a change: which cluster, what it touches, what a rehearsal said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Button

from backend.domain.answers import ChangeAnswer
from tui.intents import Intent
from tui.screens.dialog import Dialog, Lines, fact_lines
from tui.tables.answers import answer_table, failure_words, headline
from tui.text import Glyphs
from tui.widgets.grid import Grid


class ConfirmScreen(Dialog[bool]):
    """Answers True only for `y`, or for Enter after the focus was moved to the button that acts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "Do it", show=False),
        Binding("n", "close", "Do nothing", show=False),
        Binding("left,h", "app.focus_previous", "Previous", show=False),
        Binding("right,l", "app.focus_next", "Next", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("pagedown", "scroll(5)", "Page down", show=False),
        Binding("pageup", "scroll(-5)", "Page up", show=False),
    ]
    AUTO_FOCUS = "#cancel"

    def __init__(self, intent: Intent, rehearsal: ChangeAnswer, glyphs: Glyphs) -> None:
        super().__init__(intent.title)
        self.intent = intent
        self.rehearsal = rehearsal
        self._glyphs = glyphs

    def compose_body(self) -> Iterable[Widget]:
        """The cluster, what is touched, what the rehearsal said, and two buttons."""
        intent = self.intent
        target = [("Cluster", intent.target.cluster_id), ("At", intent.target.bootstrap_servers)]
        words, tone = headline(self.rehearsal)
        with VerticalScroll(id="facts", can_focus=False):
            yield from fact_lines([*target, *intent.touches])
            if intent.effect:
                yield Lines(intent.effect, classes="effect")
            for note in self.rehearsal.notes:
                yield Lines(note, classes="effect")
        yield Lines(f"Rehearsed, nothing changed yet: {words}.", classes=f"headline -{tone}")
        for reason in failure_words(self.rehearsal):
            yield Lines(reason, classes="-bad")
        yield Grid(id="results", glyphs=self._glyphs, cursor=False)
        with Horizontal(id="buttons"):
            yield Button("Do nothing (Esc)", id="cancel", compact=True)
            yield Button(f"{intent.button} (y)", id="agree", compact=True, variant="warning")

    def on_mount(self) -> None:
        """Show what the rehearsal said of each item."""
        grid = self.query_one(Grid)
        grid.empty_text = "Nothing to do."
        grid.styles.height = min(len(self.rehearsal.results), 8) + 1
        grid.show_table(answer_table(self.rehearsal, self.intent.changes))

    @property
    def possible(self) -> bool:
        """False where the rehearsal says that every item would fail."""
        return any(result.ok for result in self.rehearsal.results)

    def action_agree(self) -> None:
        """Do it."""
        self.dismiss(True)

    def action_close(self) -> None:
        """Do nothing."""
        self.dismiss(False)

    def action_scroll(self, rows: int) -> None:
        """Move through the items."""
        self.query_one(Grid).action_cursor(rows)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "agree")
