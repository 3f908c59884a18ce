"""The one question before a change: what it touches, which cluster, what a rehearsal said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Button, Input

from backend.domain.answers import ChangeAnswer
from backend.domain.steering import Preview
from tui.intents import Intent
from tui.screens.dialog import Dialog, Lines, fact_lines
from tui.tables.answers import answer_table, failure_words, headline
from tui.tables.mending import readable
from tui.text import Glyphs
from tui.widgets.grid import Grid

WARNINGS_MOST: Final = 3
LOW: Final = 30
"""Below so many lines the items get fewer of them, so that the buttons stay in sight."""


class ConfirmScreen(Dialog[bool]):
    """Answers True only for `y`, or for Enter after the focus was moved to the button that acts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "Do it", show=False),
        Binding("n", "close", "Do nothing", show=False),
        Binding("w", "why", "Say why", show=False),
        Binding("left,h", "app.focus_previous", "Previous", show=False),
        Binding("right,l", "app.focus_next", "Next", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
    ]
    AUTO_FOCUS = "#cancel"

    def __init__(
        self,
        intent: Intent,
        rehearsal: ChangeAnswer,
        glyphs: Glyphs,
        preview: Preview | None = None,
        changed: str = "",
    ) -> None:
        """`changed` says why the question is asked again."""
        super().__init__(intent.title)
        self.intent = intent
        self.rehearsal = rehearsal
        self.preview = preview
        self.reason = intent.reason
        """Why, as far as the operator has said."""
        self._glyphs = glyphs
        self._changed = changed

    def compose_body(self) -> Iterable[Widget]:
        """What changed, what is touched, what the rehearsal said, and two buttons."""
        intent = self.intent
        if self._changed:
            yield Lines(f"{self._changed} This is how it is now:", classes="-bad", id="changed")
        if self.preview is not None:
            yield Lines(self.preview.sentence, classes="blast")
            yield from _warnings(self.preview.warnings)
        target = intent.target
        with VerticalScroll(id="facts", can_focus=False):
            if intent.effect:
                yield Lines(intent.effect, classes="effect")
            for note in self.rehearsal.notes:
                yield Lines(readable(note), classes="effect")
            yield from fact_lines(
                [
                    ("Cluster", target.cluster_id),
                    *intent.touches,
                    ("At", target.bootstrap_servers),
                ]
            )
        words, tone = headline(self.rehearsal)
        yield Lines(f"Rehearsed, nothing changed yet: {words}.", classes=f"headline -{tone}")
        for reason in failure_words(self.rehearsal):
            yield Lines(reason, classes="-bad")
        yield Grid(id="results", glyphs=self._glyphs, cursor=False)
        with Horizontal(id="why", classes="entry"):
            yield Lines("Why: ", classes="why")
            yield Input(self.reason, id="reason", compact=True, disabled=True, max_length=2_000)
        with Horizontal(id="buttons"):
            yield Button("Do nothing (Esc)", id="cancel", compact=True)
            yield Button(f"{intent.button} (y)", id="agree", compact=True, variant="warning")
            yield Lines("w says why", classes="hint")

    def on_mount(self) -> None:
        """Show what the rehearsal said of each item."""
        self.query_one("#why").display = False
        self.query_one("#reason", Input).cursor_blink = False
        low = self.app.size.height < LOW
        if low:
            self.query_one("#facts").styles.max_height = 8
        grid = self.query_one(Grid)
        grid.empty_text = "Nothing to do."
        grid.styles.height = min(len(self.rehearsal.results), 4 if low else 8) + 1
        grid.show_table(answer_table(self.rehearsal, self.intent.changes))

    @property
    def possible(self) -> bool:
        """False where the rehearsal says that every item would fail."""
        return any(result.ok for result in self.rehearsal.results)

    def action_agree(self) -> None:
        """Do it."""
        self.dismiss(True)

    def action_close(self) -> None:
        """Do nothing; leave the line that says why first."""
        entry = self.query_one("#reason", Input)
        if entry.has_focus:
            self.query_one("#cancel").focus()
        else:
            self.dismiss(False)

    def action_why(self) -> None:
        """Open the line that says why."""
        entry = self.query_one("#reason", Input)
        self.query_one("#why").display = True
        entry.disabled = False
        entry.focus()

    @on(Input.Changed, "#reason")
    def _why_changed(self, event: Input.Changed) -> None:
        self.reason = event.value.strip()

    @on(Input.Submitted, "#reason")
    def _why_said(self) -> None:
        self.query_one("#cancel").focus()

    def action_scroll(self, rows: int) -> None:
        """Move through the items."""
        self.query_one(Grid).action_cursor(rows)

    def action_page(self, pages: int) -> None:
        """Move through the items, and through what stands above them."""
        self.action_scroll(5 * pages)
        self.query_one("#facts").scroll_relative(y=5 * pages, animate=False)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "agree")


def _warnings(warnings: tuple[str, ...]) -> Iterable[Widget]:
    """The first of them; the others are counted."""
    for warning in warnings[:WARNINGS_MOST]:
        yield Lines(f"! {warning}", classes="-warn")
    if len(warnings) > WARNINGS_MOST:
        yield Lines(f"! and {len(warnings) - WARNINGS_MOST} more warnings", classes="-warn")
