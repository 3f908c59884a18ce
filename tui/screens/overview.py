"""The overview: whether all is well, how far the moves are, what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from tui.screens.view import ViewScreen
from tui.views import OVERVIEW
from tui.widgets.pane import Pane


class OverviewScreen(ViewScreen):
    """Home."""

    VIEW: ClassVar[str] = OVERVIEW

    def compose_body(self) -> Iterable[Widget]:
        """The panes."""
        yield Pane(glyphs=self.kshunt.glyphs, id="health")
