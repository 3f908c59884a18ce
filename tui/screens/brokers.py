"""The brokers view: who sends, who receives, and under which throttle."""

from __future__ import annotations

from typing import ClassVar

from tui.screens.table import TableScreen
from tui.views import BROKERS


class BrokersScreen(TableScreen):
    """One row a broker."""

    VIEW: ClassVar[str] = BROKERS
    NOUN: ClassVar[str] = "broker"
    HAS_PLOT: ClassVar[bool] = True

    def action_edit(self) -> None:
        """Edit the rates of the broker under the cursor."""
        broker = self.grid.cursor_key
        if not self.refused("edit") and isinstance(broker, int):
            self.kshunt.flows.edit_rates((broker,))

    def action_edit_all(self) -> None:
        """Edit the rates of every broker."""
        if not self.refused("edit_all"):
            self.kshunt.flows.edit_rates(None)
