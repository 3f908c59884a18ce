"""The point of no return of a shrink: what is deleted, where its records are, and its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.question_parts import AskPart
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.facts.shrink_phases import cut_over_lines, waits_for_name
from kshunt.tui.grid.pane import Pane

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.tui.shell.dashboard import Dashboard

AROUND: Final = 8
"""Lines of the box that are not about the topic."""
LEAST: Final = (50, 17)
"""Columns and lines below which not everything is in sight: nobody agrees to that."""


class CutOverScreen(Dialog[bool]):
    """Answers True only for the name of the topic, while the shrink waits for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "app.focus_previous", "Previous", show=False),
        Binding("right,l", "app.focus_next", "Next", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self, app: Dashboard, intent: Intent, operation_id: str) -> None:
        super().__init__(intent.title)
        self._kshunt, self._id = app, operation_id
        self._ask = AskPart(intent, read_only=app.read_only)
        self.over = False
        """True once it waits no more: somebody else was quicker, or it has ended."""

    @property
    def reason(self) -> str:
        """Why, in the operator's words."""
        return self._ask.reason

    def compose_body(self) -> Iterable[Widget]:
        """What is known, and the question."""
        yield Lines("", id="over", classes="-bad")
        yield Pane(glyphs=self._kshunt.glyphs, id="watched")
        yield self._ask

    def on_mount(self) -> None:
        """Where nothing is done by mistake; and follow the store."""
        self.query_one("#over").display = False
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._on_changed("")
        self._begin()

    def _begin(self) -> None:
        """The cursor is in the name where that can be typed."""
        if not self._ask.query_one("#typed", Input).disabled:
            self._ask.begin()

    def on_resize(self, event: events.Resize) -> None:
        """Show the groups that there is room for."""
        self._on_changed("")
        self._begin()

    def _on_changed(self, view: str) -> None:
        """Others may confirm it, cancel it, or start a group meanwhile."""
        operation = self._kshunt.store.scene.operation(self._id)
        if self.over:
            return
        if operation is None or not waits_for_name(operation):
            self._end(_over_words(operation))
            return
        progress = operation.details.shrink
        assert progress is not None
        room = max(self.app.size.height - AROUND, 3)
        lines = cut_over_lines(progress, self._kshunt.store.scene.cluster_id, room)
        what = "it differs" if progress.past_no_return else "point of no return"
        self.query_one("#watched", Pane).show(f"{progress.topic}: {what}", lines)
        self._warn()

    def _warn(self) -> None:
        """What is not in sight is not agreed to; what is old is said to be."""
        width, height = LEAST
        small = self.app.size.width < width or self.app.size.height < height
        self._ask.query_one("#typed", Input).disabled = small or self._kshunt.read_only
        if small:
            self._say_over(f"Too small to confirm: make the terminal {width} by {height}.")
        elif not self._kshunt.store.scene.live:
            self._say_over("The connection is lost: this may be out of date.")
        else:
            self._say_over("")

    def _say_over(self, words: str) -> None:
        line = self.query_one("#over", Lines)
        line.display = bool(words)
        line.say(words)

    def _end(self, words: str) -> None:
        """Nobody can agree any more: say why, and take no name."""
        self._say_over(words)
        self.over = True
        self._ask.query_one("#typed", Input).disabled = True
        self._ask.query_one("#cancel").focus()

    @on(AskPart.Decided)
    def _decided(self, message: AskPart.Decided) -> None:
        self.dismiss(message.agreed and not self.over)


def _over_words(operation: Operation | None) -> str:
    """What became of it meanwhile."""
    if operation is None:
        return "It no longer exists. Esc closes."
    progress = operation.details.shrink
    phase = "" if progress is None or operation.state.ended else f", in {progress.phase.value}"
    return f"It no longer waits for this: it is {operation.state.value}{phase}. Esc closes."
