"""What the backend answered: item by item, or why it refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from backend.domain.answers import ChangeAnswer
from backend.errors import KshuntError, PlanError
from tui.intents import Intent
from tui.paths import save_plan
from tui.screens.dialog import Dialog, Lines, fact_lines
from tui.tables.answers import answer_table, failure_words, headline
from tui.tables.mending import readable
from tui.text import Glyphs
from tui.widgets.grid import Grid

LOW: Final = 30
"""Below so many lines the items get fewer of them."""
WATCH: Final = "The tables show the effect once the cluster reports it."


class ResultScreen(Dialog[None]):
    """The answer to a change that was sent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "close", "Close", show=False),
        Binding("w", "write", "Write the way back", show=False),
    ]

    def __init__(self, intent: Intent, answer: ChangeAnswer, glyphs: Glyphs) -> None:
        super().__init__(intent.title)
        self.answer = answer
        self._intent = intent
        self._glyphs = glyphs

    def compose_body(self) -> Iterable[Widget]:
        """A headline, notes, and the items."""
        words, tone = headline(self.answer)
        yield Lines(f"{words[:1].upper()}{words[1:]}.", classes=f"headline -{tone}")
        for reason in failure_words(self.answer):
            yield Lines(reason, classes="-bad")
        with VerticalScroll(id="facts", can_focus=False):
            if self.answer.operation_id:
                yield from fact_lines([("Operation", self.answer.operation_id)])
            yield Lines(WATCH, classes="effect")
            for note in self.answer.notes:
                yield Lines(readable(note), classes="effect")
        yield Grid(id="results", glyphs=self._glyphs)
        if self.answer.rollback_plan is not None:
            words = f"w writes the plan that leads back to {self._rollback_name}"
            yield Lines(words, id="rollback", classes="hint")
        yield Lines("Esc or Enter closes", classes="hint")

    @property
    def _rollback_name(self) -> str:
        return f"kshunt-rollback-{self.answer.operation_id or 'plan'}.json"

    async def action_write(self) -> None:
        """Write the plan that leads back into the working directory."""
        plan = self.answer.rollback_plan
        if plan is None:
            return
        line = self.query_one("#rollback", Lines)
        try:
            path = await asyncio.to_thread(save_plan, plan, self._rollback_name)
        except PlanError as error:
            line.say(error.message)
        else:
            line.say(f"Written: {path}")

    def on_mount(self) -> None:
        """Show the items."""
        grid = self.query_one(Grid)
        low = self.app.size.height < LOW
        if low and self.answer.notes:
            self.query_one("#facts").styles.max_height = 7
        grid.styles.height = min(len(self.answer.results), 7 if low else 14) + 1
        grid.show_table(answer_table(self.answer, self._intent.changes))
        grid.focus()


class ErrorScreen(Dialog[None]):
    """Why a whole request was refused, and what to do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q", "close", "Close", show=False)]

    def __init__(self, title: str, error: KshuntError, *, sent: bool) -> None:
        super().__init__(title)
        self.error = error
        self._sent = sent

    def compose_body(self) -> Iterable[Widget]:
        """What happened, what state the cluster is in, what to do."""
        yield Lines(f"{self.error.title}.", classes="headline -bad")
        with VerticalScroll(id="facts", can_focus=False):
            yield Lines(self.error.message)
            if self.error.advice:
                yield Lines(self.error.advice, classes="effect")
            if not self._sent:
                yield Lines(
                    "Only a rehearsal was asked for: nothing was changed.", classes="effect"
                )
        yield Lines("Esc or Enter closes", classes="hint")
