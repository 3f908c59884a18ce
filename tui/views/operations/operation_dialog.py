"""One operation in full, kept up to date: where it stands, what it moves, what can be done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType
from textual.widget import Widget

from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.actions import action_named, bind, can, dialog_bindings
from kshunt.tui.dialogs.dialog import CLOSE_KEYS, Dialog, Lines
from kshunt.tui.grid.pane import Pane
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.views.operations.progress_text import operation_lines

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard

AROUND = 5
"""Lines of the box that are not about the operation."""
CLOSES: Final = "Esc or Enter closes"
ACTIONS: Final = (
    *("pause", "cancel_operation", "undo", "abandon", "confirm_shrink"),
    *("claim", "remark", "audit", "export"),
)
"""What can be done from here, by the keys that do it in the view."""


class WatchScreen(Dialog[str | None]):
    """Answers with the action that is wanted next, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE_KEYS]

    def __init__(self, app: Dashboard, operation_id: str) -> None:
        super().__init__(f"Operation {operation_id}")
        for name in ACTIONS:
            bind(self, dialog_bindings(name, f"want('{name}')"))
        self._kshunt = app
        self._id = operation_id

    def compose_body(self) -> Iterable[Widget]:
        """A pane, and the keys."""
        yield Pane(glyphs=self._kshunt.glyphs, id="watched")
        yield Lines(CLOSES, id="closes", classes="hint")

    def on_mount(self) -> None:
        """Follow the store."""
        self._kshunt.changed.subscribe(self, self._on_changed)
        self._on_changed("")

    def _on_changed(self, view: str) -> None:
        self.ask(self._show)

    async def _show(self) -> None:
        room = max(self.app.size.height - AROUND, 3)
        found = await operation_lines(self._kshunt, self._id, room)
        if found is not None:
            title, lines = found
            self.query_one("#watched", Pane).show(title, [_roomy(line) for line in lines])
        operation = self._kshunt.store.scene.operation(self._id)
        ended = operation is None or operation.state.ended
        self.query_one("#closes", Lines).say(CLOSES if ended else f"{CLOSES}; it continues.")

    def action_want(self, action: str) -> None:
        """Do something with it, if that is possible now; it is asked about as ever."""
        operation = self._kshunt.store.scene.operation(self._id)
        if operation is not None and _offered(operation, action):
            self.dismiss(action)


def _offered(operation: Operation, action: str) -> bool:
    """Whether the backend offers it; looking is always possible."""
    found = action_named(action)
    wanted = () if found is None else [one for one in found.when if one.startswith(can(""))]
    return not wanted or any(can(name) in wanted for name in operation.actions)


def _roomy(line: PaneLine) -> PaneLine:
    """What does not fit on one line may take two here."""
    return line._replace(lines=2)
