"""The throttles view: every rate and every throttled replica list, editable."""

from __future__ import annotations

from typing import ClassVar

from tui.screens.view import ViewScreen
from tui.store import THROTTLES


class ThrottlesScreen(ViewScreen):
    """One row a broker's rates, then one row a topic's lists."""

    VIEW: ClassVar[str] = THROTTLES
    NOUN: ClassVar[str] = "broker or topic"

    def noun(self, count: int) -> str:
        """What the rows are called."""
        return self.NOUN if count == 1 else "brokers and topics"

    def action_edit(self) -> None:
        """Edit the row under the cursor."""
        from tui.tables.throttles import ListKey, RateKey

        key = self.grid.cursor_key
        if key is None or self.refused("edit"):
            return
        if isinstance(key, RateKey):
            self.kshunt.flows.edit_rates((key.broker,))
        elif isinstance(key, ListKey):
            self.kshunt.flows.edit_lists(key.topic)

    def action_edit_all(self) -> None:
        """Edit the rates of every broker."""
        if not self.refused("edit_all"):
            self.kshunt.flows.edit_rates(None)
