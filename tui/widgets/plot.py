"""Bytes that remain, over time: built off the event loop, and only while it is in sight."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from tui.text import Glyphs

if TYPE_CHECKING:
    from backend.domain.snapshot import HistoryPoint

REBUILD_MS = 4_000
"""A plot moves as a whole: oftener than this, it would cost a slow line more than it tells."""


class PlotPanel(Widget):
    """A plot with axes. Shown by default where the terminal is large."""

    def __init__(self, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._text = Text("")
        self._history: tuple[HistoryPoint, ...] = ()
        self._building = False
        self._drawn: object = None

    def toggle(self) -> None:
        """Show or hide it, whatever the size of the terminal says."""
        shown = self.display and self.size.height > 0
        self.set_class(not shown, "-on")
        self.set_class(shown, "-off")

    def render(self) -> Text:
        """The plot as it was built last."""
        return self._text

    def on_resize(self) -> None:
        """Build it again for its new size."""
        self._build_soon()

    def show_history(self, history: Sequence[HistoryPoint]) -> None:
        """Plot these points."""
        self._history = tuple(history)
        self._build_soon()

    def _build_soon(self) -> None:
        wanted = (self.size, self._newest_ms() // REBUILD_MS)
        if self.size.height < 4 or self._building or wanted == self._drawn:
            return
        self._building = True
        self._drawn = wanted
        self.run_worker(self._build(), exclusive=False, exit_on_error=True)

    def _newest_ms(self) -> int:
        return self._history[-1].at_ms if self._history else 0

    async def _build(self) -> None:
        from tui.plotting import plot_remaining

        width, height = self.size.width, self.size.height
        try:
            text = await asyncio.to_thread(
                plot_remaining, self._history, width, height, self._glyphs
            )
        finally:
            self._building = False
        self._text = text
        self.refresh()
        # What came while this was built is drawn next.
        self._build_soon()
