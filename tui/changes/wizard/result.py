"""What the backend answered: item by item, live since then, or why it refused."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.errors import KshuntError
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.items_part import FRAME_LINES
from kshunt.tui.changes.wizard.next_step import NEXT_KEYS, NextStep, next_step, show_progress
from kshunt.tui.changes.wizard.question_parts import AnswerPart, error_lines
from kshunt.tui.dialogs.dialog import CLOSE_KEYS, Dialog, Lines
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard


class ResultScreen(Dialog[NextStep | None]):
    """The answer to a change that was sent; answers with what is to be done next, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE_KEYS,
        Binding("w", "write", "Write the rollback", show=False),
        Binding("C", "copy", "Copy the command", show=False),
        *NEXT_KEYS,
    ]
    AUTO_FOCUS = None

    def __init__(
        self, app: Dashboard, intent: Intent, answer: ChangeAnswer, glyphs: Glyphs
    ) -> None:
        super().__init__(intent.title)
        self.answer = answer
        self._intent = intent
        self._kshunt = app
        self._part = AnswerPart(intent, answer, glyphs, app.downloads)

    def compose_body(self) -> Iterable[Widget]:
        """A headline, how it goes, the items."""
        yield self._part
        copies = "C copies the command, " if self._intent.command is not None else ""
        yield Lines(f"{copies}Esc or Enter closes", id="keys", classes="hint")

    def on_mount(self) -> None:
        """Follow the operation."""
        self._part.begin()
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._on_changed("")

    def on_resize(self) -> None:
        """The keys stay in sight."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        lines = self.query_one("#keys").outer_size.height
        self._part.fit(self.app.size.height - FRAME_LINES - lines)

    def _on_changed(self, view: str) -> None:
        progress = partial(show_progress, self._kshunt.store, self._part)
        run_latest(self, progress, "progress")

    async def action_copy(self) -> None:
        """Copy the command of the shell that makes the same change, for the next time."""
        from kshunt.tui.changes.wizard.copy_command import copy_command

        keys = self.query_one("#keys", Lines)
        keys.say_above(await copy_command(self._kshunt, self._intent, self._intent.reason))
        self.call_after_refresh(self._fit)

    async def action_write(self) -> None:
        """Write the plan that leads back into the working directory."""
        await self._part.write()

    def action_next(self, verb: str) -> None:
        """Undo or cancel it, where that is possible; it is asked about as ever."""
        able = next_step(self._kshunt.store, self.answer, verb)
        if able is not None:
            self.dismiss(able)


class ErrorScreen(Dialog[None]):
    """Why a whole request was refused, and what to do."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE_KEYS]

    def __init__(self, title: str, error: KshuntError, *, sent: bool) -> None:
        super().__init__(title)
        self.error = error
        self._sent = sent

    def compose_body(self) -> Iterable[Widget]:
        """What happened, what state the cluster is in, what to do."""
        yield from error_lines(self.error, sent=self._sent)
        yield Lines("Esc or Enter closes", classes="hint")
