"""One line of text, typed; with what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual import on
from textual.widget import Widget

from kshunt.backend.errors import BadInput
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.form import FormField, FormPart


class TextPromptScreen(Dialog[str | None]):
    """Answers with the text, or None."""

    def __init__(
        self,
        title: str,
        lines: tuple[str, ...],
        label: str,
        *,
        hint: str,
        check: Callable[[str], str],
    ) -> None:
        """Ask for it.

        Args:
            title: of the dialogue.
            lines: what it is about.
            label: of what is typed.
            hint: what can be typed.
            check: makes the answer of it, or raises a `KshuntError`.
        """
        super().__init__(title)
        self._lines = lines
        self._field = FormField(label, "", hint, check)

    def compose_body(self) -> Iterable[Widget]:
        """One field."""
        yield FormPart(self._lines, (self._field,))
        yield Lines("Enter sends it, Esc cancels", classes="hint")

    def on_mount(self) -> None:
        """The operator can type immediately."""
        self.query_one(FormPart).begin()

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        self.dismiss(message.values[0])


def needed(text: str) -> str:
    """A text that must not be empty.

    Raises:
        BadInput: it is.
    """
    found = text.strip()
    if not found:
        raise BadInput("Say why.")
    return found
