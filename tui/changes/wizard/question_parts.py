"""What questions and answers are made of, in a dialogue of their own or in a wizard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.errors import NoWidget
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input

from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.errors import AwaitsApproval, KshuntError, PlanError
from kshunt.tui.changes.wizard.answer_table import answer_table, failure_words, headline
from kshunt.tui.changes.wizard.change_service import READ_ONLY, ChangePreview
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.items_part import ItemsPart
from kshunt.tui.data.files import save_plan
from kshunt.tui.dialogs.dialog import Composed, Lines, fact_lines
from kshunt.tui.grid.grid import Grid
from kshunt.tui.terminal.downloads import Downloads
from kshunt.tui.terminal.input import once_painted
from kshunt.tui.text.fitting import servers_text
from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

WARNINGS_MOST: Final = 3
LOW: Final = 30
"""On a terminal with fewer lines than this the items get fewer, so the buttons stay in sight."""
FACTS_MOST: Final = 10
"""Lines of facts, where there is room."""
WATCH: Final = "The tables show the effect once the cluster reports it."


class PreviewPart(ItemsPart):
    """What a change touches, and what a rehearsal said of each item."""

    def __init__(
        self,
        intent: Intent,
        looked: ChangePreview,
        glyphs: Glyphs,
        changed: str = "",
        *,
        read_only: bool = False,
    ) -> None:
        """`changed` says why it is shown again."""
        super().__init__()
        self.intent, self.looked = intent, looked
        self.read_only = read_only
        self._glyphs, self._changed = glyphs, changed

    def compose(self) -> ComposeResult:
        """What changed, what is touched, what the rehearsal said."""
        intent, rehearsal, preview = self.intent, self.looked.rehearsal, self.looked.preview
        if intent.is_refused(read_only=self.read_only):
            yield Lines(READ_ONLY, classes="-warn", id="banner")
        if self._changed:
            yield Lines(f"{self._changed} This is the effect now:", classes="-bad", id="changed")
        if preview is not None:
            yield Lines(preview.sentence, classes="blast")
        yield from _warnings((preview or rehearsal).warnings)
        for number, line in enumerate(intent.lines):
            yield Lines(line, classes="effect" if number else "besides")
        with VerticalScroll(id="facts", can_focus=False):
            if intent.effect:
                yield Lines(intent.effect, classes="effect")
            for note in rehearsal.notes:
                yield Lines(note, classes="effect")
            target = intent.target
            yield from fact_lines(
                [
                    ("Cluster", target.cluster_id),
                    *intent.touches,
                    ("At", servers_text(target.bootstrap_servers)),
                ]
            )
        words, tone = headline(rehearsal)
        yield Lines(f"Validated, nothing changed yet: {words}.", classes=f"headline -{tone}")
        for reason in failure_words(rehearsal):
            yield Lines(reason, classes="-bad")
        yield Grid(id="results", glyphs=self._glyphs, cursor=False)

    def on_mount(self) -> None:
        """Show what the rehearsal said of each item."""
        low = self.app.size.height < LOW
        self.facts_most = (6 if self.intent.lines else 8) if low else FACTS_MOST
        self.query_one("#facts").styles.max_height = self.facts_most
        grid = self.query_one(Grid)
        grid.empty_text = "Nothing to do."
        results = self.looked.rehearsal.results
        self.items_most = min(len(results), 4 if low else 8) + 1
        grid.styles.height = self.items_most
        grid.show_table(answer_table(self.looked.rehearsal, self.intent.changes))


def _warnings(warnings: tuple[str, ...]) -> Iterable[Widget]:
    """The first of them; the others are counted."""
    for warning in warnings[:WARNINGS_MOST]:
        yield Lines(f"! {warning}", classes="-warn")
    if len(warnings) > WARNINGS_MOST:
        yield Lines(f"! and {len(warnings) - WARNINGS_MOST} more warnings", classes="-warn")


class AskPart(Composed, Vertical):
    """The question itself: two buttons, or a name that has to be typed; and a line to say why."""

    class Decided(Message):
        """It is agreed to, or not."""

        def __init__(self, agreed: bool) -> None:
            super().__init__()
            self.agreed = agreed

    def __init__(self, intent: Intent, *, read_only: bool, leave: str = "Do nothing") -> None:
        super().__init__(classes="part")
        self.intent = intent
        self.reason = intent.reason
        """Why, as far as the operator has said."""
        self._shut = intent.is_refused(read_only=read_only)
        self._leave = leave
        self.was_painted = False
        """True once it was painted: what was typed before that agrees to nothing."""

    def compose(self) -> ComposeResult:
        """The name, the reason, the buttons."""
        typed = self.intent.typed
        with Horizontal(id="name", classes="entry"):
            yield Lines(f"Type {' or '.join(typed)} to confirm: ", classes="why")
            yield Input(id="typed", compact=True, disabled=not typed or self._shut)
        yield Lines("", id="wrong", classes="hint -bad")
        with Horizontal(id="why", classes="entry"):
            yield Lines("Why: ", classes="why")
            yield Input(self.reason, id="reason", compact=True, disabled=True, max_length=2_000)
        with Horizontal(id="buttons"):
            yield Button(f"{self._leave} (Esc)", id="cancel", compact=True)
            if self._shut:
                yield Lines("Read-only: it ends here", classes="-warn")
                return
            if not typed:
                button = f"{self.intent.button} (y)"
                yield Button(button, id="agree", compact=True, variant="warning")
            yield Lines("w adds a reason" if not typed else "", classes="hint")

    def on_mount(self) -> None:
        """The lines are there when they are wanted."""
        self.query_one("#name").display = bool(self.intent.typed) and not self._shut
        self.query_one("#wrong").display = False
        # What was said before, and is said again, stands in sight.
        self.query_one("#why").display = bool(self.reason)
        for entry in self.query(Input):
            entry.cursor_blink = False
        once_painted(self, self._was_painted)

    def _was_painted(self) -> None:
        self.was_painted = True

    def begin(self) -> None:
        """Where nothing is done by mistake."""
        name = self.query_one("#typed", Input)
        (self.query_one("#cancel") if name.disabled else name).focus()

    @property
    def in_sight(self) -> bool:
        """False where a name has to be typed, and there is no room to show its line."""
        name = self.query_one("#name")
        if not name.display:
            return True
        try:
            return self.screen.find_widget(name).visible_region.height > 0
        except NoWidget:
            return False

    def close_name(self, closed: bool) -> None:
        """Close the field for the name, or open it again."""
        entry = self.query_one("#typed", Input)
        if self.intent.typed and not self._shut and entry.disabled != closed:
            entry.disabled = closed
            self.begin()

    def agree(self) -> None:
        """By a key: as far as it is let, and nothing has to be typed."""
        if not self._shut and not self.intent.typed:
            self._decide(True)

    def why(self) -> None:
        """Open the line that says why."""
        if not self._shut:
            entry = self.query_one("#reason", Input)
            self.query_one("#why").display = True
            entry.disabled = False
            entry.focus()

    def left_why(self) -> bool:
        """Leave the line that says why; True if that was it."""
        if not self.query_one("#reason", Input).has_focus:
            return False
        self.begin()
        return True

    @on(Input.Changed, "#reason")
    def _why_changed(self, event: Input.Changed) -> None:
        self.reason = event.value.strip()

    @on(Input.Submitted, "#reason")
    def _why_said(self) -> None:
        self.begin()

    @on(Input.Changed, "#typed")
    def _typing(self) -> None:
        self.query_one("#wrong").display = False

    @on(Input.Submitted, "#typed")
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip() in self.intent.typed:
            self._decide(True)
            return
        wrong = self.query_one("#wrong", Lines)
        wrong.say(f"'{event.value}' is not {' or '.join(self.intent.typed)}; nothing was sent.")
        wrong.display = True

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self._decide(event.button.id == "agree")

    def _decide(self, agreed: bool) -> None:
        if self.was_painted or not agreed:
            self.post_message(self.Decided(agreed))


class AnswerPart(ItemsPart):
    """What the backend answered, item by item, and how the operation goes since."""

    def __init__(
        self,
        intent: Intent,
        answer: ChangeAnswer,
        glyphs: Glyphs,
        downloads: Downloads | None = None,
    ) -> None:
        super().__init__()
        self.answer = answer
        self._downloads = downloads
        self._intent = intent
        self._glyphs = glyphs
        self._since: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        """A headline, notes, the items, and the way back."""
        words, tone = headline(self.answer)
        yield Lines(f"{words[:1].upper()}{words[1:]}.", classes=f"headline -{tone}")
        for reason in failure_words(self.answer):
            yield Lines(reason, classes="-bad")
        with VerticalScroll(id="facts", can_focus=False):
            if self.answer.operation_id:
                yield from fact_lines([("Operation", self.answer.operation_id)])
                yield Lines("", id="live")
            if not self._intent.local:
                yield Lines(WATCH, classes="effect")
            outcome = self._intent.outcome
            for line in () if outcome is None else outcome(self.answer):
                yield Lines(line, classes="effect")
            for warning in self.answer.warnings:
                yield Lines(warning, classes="effect")
            for note in self.answer.notes:
                yield Lines(note, classes="effect -note")
        yield Grid(id="results", glyphs=self._glyphs)
        if self.answer.rollback_plan is not None:
            words = f"w writes its rollback plan to {self._rollback_name}"
            yield Lines(words, id="rollback", classes="hint")
        yield Lines("", id="next", classes="hint")

    def on_mount(self) -> None:
        """Show the items."""
        grid = self.query_one(Grid)
        low = self.app.size.height < LOW
        said = self.answer.warnings or self.answer.notes
        self.facts_most = 9 if low and (said or self._intent.outcome) else FACTS_MOST
        self.query_one("#facts").styles.max_height = self.facts_most
        self.items_most = min(len(self.answer.results), 7 if low else 14) + 1
        grid.styles.height = self.items_most
        grid.show_table(answer_table(self.answer, self._intent.changes))

    def begin(self) -> None:
        """The keys move through the items."""
        self.query_one(Grid).focus()

    def show_items(self, since: Mapping[str, str]) -> None:
        """How the items are by now, in words."""
        for grid in self.query(Grid) if since and since != self._since else ():
            self._since = since
            grid.show_table(answer_table(self.answer, self._intent.changes, since))

    def show_operation(self, operation: Operation | None, words: str, keys: str) -> None:
        """How it goes, and what can be done with it."""
        if operation is not None and self.query("#live"):
            self.query_one("#live", Lines).say(words)
            for line, note in zip(
                self.query(".-note").results(Lines), self.answer.notes, strict=False
            ):
                line.say(unsaid(note, words))
        # The store may change before the lines are there.
        for line in self.query("#next").results(Lines):
            line.say(keys)
        self.call_after_refresh(self.fit_again)

    @property
    def _rollback_name(self) -> str:
        return f"kshunt-rollback-{self.answer.operation_id or 'plan'}.json"

    async def write(self) -> None:
        """Write the plan that leads back: into the working directory, or to the browser."""
        plan = self.answer.rollback_plan
        if plan is None:
            return
        line = self.query_one("#rollback", Lines)
        if self._downloads is not None:
            self._downloads.offer(self._rollback_name, json.dumps(plan))
            line.say(f"Downloaded by the browser: {self._rollback_name}")
            return
        try:
            path = await asyncio.to_thread(save_plan, plan, self._rollback_name)
        except PlanError as error:
            line.say(error.message)
        else:
            line.say(f"Written: {path}")


def unsaid(note: str, said: str) -> str:
    """A note without its first sentence, where that is said already and there is another one."""
    first, _, others = note.partition(". ")
    return others if others and first in said else note


def error_lines(error: KshuntError, *, sent: bool) -> Iterable[Widget]:
    """What happened, what state the cluster is in, what to do."""
    tone = "-warn" if isinstance(error, AwaitsApproval) else "-bad"
    yield Lines(f"{error.title}.", classes=f"headline {tone}")
    lines = [Lines(error.message)]
    if error.advice:
        lines.append(Lines(error.advice, classes="effect"))
    if not sent:
        said = "This was only a validation: nothing was changed."
        lines.append(Lines(said, classes="effect"))
    yield VerticalScroll(*lines, id="facts", can_focus=False)
