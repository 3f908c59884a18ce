"""The one question before a change: what it touches, which cluster, what a rehearsal said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from kshunt.tui.changes.wizard.items_part import FRAME_LINES
from kshunt.tui.changes.wizard.question_parts import AskPart, PreviewPart
from kshunt.tui.dialogs.dialog import PAGE_KEYS, SCROLL_KEYS, Dialog, Lines
from kshunt.tui.shell.dashboard import Dashboard

QUESTION_KEYS: Final[list[BindingType]] = [
    Binding("y", "agree", "Do it", show=False),
    Binding("n", "close", "Do nothing", show=False),
    Binding("w", "why", "Say why", show=False),
    Binding("C", "copy", "Copy the command", show=False),
    Binding("left,h", "app.focus_previous", "Previous", show=False),
    Binding("right,l", "app.focus_next", "Next", show=False),
    *SCROLL_KEYS,
    *PAGE_KEYS,
]

COPIES: Final = "C copies the kshunt command that does the same"
COPIES_BESIDE_A_NAME: Final = "Tab leaves the line. Then C copies the kshunt command."
TOO_SMALL: Final = "Too small to confirm: make the terminal larger."


class ConfirmScreen(Dialog[bool]):
    """Answers True only for `y`, for Enter after the focus was moved to the button that acts, or
    for the name that has to be typed."""

    BINDINGS: ClassVar[list[BindingType]] = QUESTION_KEYS
    AUTO_FOCUS = None

    def __init__(self, preview: PreviewPart) -> None:
        """About what `preview` shows; where that is read-only, it ends with the preview."""
        super().__init__(preview.intent.title)
        self.intent = preview.intent
        self._preview = preview
        self._ask = AskPart(preview.intent, read_only=preview.read_only)

    @property
    def reason(self) -> str:
        """Why, as far as the operator has said."""
        return self._ask.reason

    def compose_body(self) -> Iterable[Widget]:
        """What it would do, and the question."""
        yield Lines(TOO_SMALL, id="small", classes="-bad")
        yield self._preview
        yield self._ask
        yield Lines(COPIES, id="command", classes="hint")

    def on_mount(self) -> None:
        """Nothing is done by mistake."""
        self.query_one("#small").display = False
        command = self.query_one("#command", Lines)
        command.display = self.intent.command is not None
        if self.intent.typed:
            command.say(COPIES_BESIDE_A_NAME)
        self._ask.begin()

    def on_resize(self) -> None:
        """An operator who types a name has to see it."""
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        command = self.query_one("#command")
        lines = command.outer_size.height if command.display else 0
        around = FRAME_LINES + self._ask.outer_size.height + lines
        self._preview.fit(self.app.size.height - around)
        self.call_after_refresh(self._look_for_name)

    def _look_for_name(self) -> None:
        in_sight = self._ask.in_sight
        self.query_one("#small").display = not in_sight
        self._ask.close_name(not in_sight)

    def action_agree(self) -> None:
        """Do it."""
        self._ask.agree()

    def action_close(self) -> None:
        """Do nothing; leave the line that says why first."""
        if not self._ask.left_why():
            self.dismiss(False)

    def action_why(self) -> None:
        """Open the line that says why."""
        self._ask.why()

    async def action_copy(self) -> None:
        """Copy the command of the shell that makes the same change."""
        from kshunt.tui.changes.wizard.copy_command import copy_command

        app = self.app
        assert isinstance(app, Dashboard)
        line = self.query_one("#command", Lines)
        line.say(await copy_command(app, self.intent, self.reason))
        line.display = True
        self.call_after_refresh(self._look)

    def action_scroll(self, rows: int) -> None:
        """Move through the items."""
        self._preview.scroll(rows)

    def action_page(self, pages: int) -> None:
        """Scroll the items and the facts above them."""
        self._preview.page(pages)

    @on(AskPart.Decided)
    def _decided(self, message: AskPart.Decided) -> None:
        self.dismiss(message.agreed)
