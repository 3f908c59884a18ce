"""Who is connected to the backend, and what they look at; kept up to date."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.tui.data.team import presence_facts
from kshunt.tui.dialogs.dialog import (
    CLOSE_KEYS,
    SCROLL_KEYS,
    Dialog,
    Lines,
    fact_lines,
    replace_children,
)
from kshunt.tui.feed.polled_facts import PRESENCE

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard


class PresenceScreen(Dialog[None]):
    """One line a session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE_KEYS,
        *SCROLL_KEYS,
    ]

    def __init__(self, app: Dashboard) -> None:
        super().__init__("Who is here", opened_by="here")
        self._kshunt = app
        self._shown: list[tuple[str, str]] | None = None

    def compose_body(self) -> Iterable[Widget]:
        """The sessions."""
        yield VerticalScroll(id="details", can_focus=False)
        yield Lines("Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Follow the store."""
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._on_changed("")

    def _on_changed(self, view: str) -> None:
        self.ask(self._show)

    async def _show(self) -> None:
        store, box = self._kshunt.store, self.query_one("#details")
        facts = presence_facts(store.scene.answer(PRESENCE))
        if facts == self._shown:
            return
        nobody = [Lines("The backend has not reported who is connected.")]
        await replace_children(box, *(fact_lines(facts) if facts else nobody))
        self._shown = facts

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#details").scroll_relative(y=rows, animate=False)
