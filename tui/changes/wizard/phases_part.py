"""An operation that goes through phases, as a wizard's last step: live, with its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Vertical

from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.grid.pane import Pane
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.operations.progress_text import operation_lines

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard

AROUND: Final = 6
"""Lines of the screen that are not about the operation: frame, steps, title, keys."""
NOTES_FROM: Final = 40
"""A terminal with fewer lines has no room for notes next to the phases; the preview had them."""


class PhasesPart(Vertical):
    """Its phases, kept up to date."""

    def __init__(self, answer: ChangeAnswer, glyphs: Glyphs) -> None:
        super().__init__(classes="part")
        self._answer, self._glyphs = answer, glyphs

    def compose(self) -> ComposeResult:
        """The phases; what the backend noted where there is room."""
        yield Lines(f"Started: operation {self._answer.operation_id}.", id="started")
        yield Pane(glyphs=self._glyphs, id="watched")
        notes = (*self._answer.notes, *self._answer.warnings)
        for note in notes if self.app.size.height >= NOTES_FROM else ():
            yield Lines(note, classes="effect")

    async def show_progress(self, app: Dashboard) -> None:
        """Show the phases as they are now."""
        room = max(self.app.size.height - AROUND, 3)
        found = await operation_lines(app, self._answer.operation_id, room, looks=False)
        if found is None or not self.query("#watched"):
            return
        title, lines = found
        self.query_one("#started").display = False
        self.query_one("#watched", Pane).show(title, lines)
