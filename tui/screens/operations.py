"""The operations view: what the backend was asked to do, and how it went."""

from __future__ import annotations

from typing import ClassVar

from tui.screens.view import ViewScreen
from tui.store import OPERATIONS


class OperationsScreen(ViewScreen):
    """One row an operation, newest first."""

    VIEW: ClassVar[str] = OPERATIONS
    NOUN: ClassVar[str] = "operation"

    def nothing_words(self) -> str:
        """Why there are no rows."""
        return "Nothing was asked of this backend yet. r starts a reassignment."

    def action_cancel(self) -> None:
        """Cancel what the operation under the cursor still moves."""
        if self.refused("cancel"):
            return
        key = self.grid.cursor_key
        operation = next((o for o in self.kshunt.store.operations if o.id == key), None)
        if operation is None or not operation.partitions:
            self.say("This operation moves no partitions.", "warn")
            return
        self.kshunt.flows.cancel(operation.partitions)
