"""The history: lag and throughput over time, and what is forecast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from tui.screens.view import ViewScreen
from tui.views import HISTORY
from tui.widgets.pane import Pane


class HistoryScreen(ViewScreen):
    """What was, and what will be."""

    VIEW: ClassVar[str] = HISTORY

    def compose_body(self) -> Iterable[Widget]:
        """The panes."""
        yield Pane(glyphs=self.kshunt.glyphs, id="past")
