"""A plot over time: built off the event loop, and only while it is in sight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from kshunt.tui.text.glyphs import Glyphs

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import HistoryPoint

REBUILD_MS = 4_000
"""A plot moves as a whole: oftener than this, it would cost a slow line more than it tells."""

Build = Callable[[int, int], Text]
"""Draws it for a width and a height, in a thread."""


class PlotPanel(Widget):
    """A plot with axes. Shown by default where the terminal is large."""

    def __init__(self, *, glyphs: Glyphs, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._text = Text("")
        self._build: Build | None = None
        self._of: Hashable = None
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

    def show_history(self, history: Sequence[HistoryPoint], every_ms: int = REBUILD_MS) -> None:
        """Plot the bytes that remained at these points; see `show`."""
        points, glyphs = tuple(history), self._glyphs
        if len(points) < 2 and self._build is None:
            self.say("Bytes remaining: no history yet")
            return

        def build(width: int, height: int) -> Text:
            from kshunt.tui.text.plots import plot_remaining

            return plot_remaining(points, width, height, glyphs)

        self.show(build, points[-1].at_ms if points else 0, every_ms=every_ms)

    def say(self, words: str) -> None:
        """Say in one line that there is nothing to plot."""
        self._build = self._of = self._drawn = None
        self.add_class("-empty")
        if words != self._text.plain:
            self._text = Text(words, no_wrap=True)
            self.refresh()

    def show(
        self, build: Build, newest_ms: int, about: Hashable = "", every_ms: int = REBUILD_MS
    ) -> None:
        """Plot something up to a time; anew each `every_ms`, and immediately if `about` differs."""
        self.remove_class("-empty")
        self._build = build
        self._of = (newest_ms // every_ms, about)
        self._build_soon()

    @property
    def is_drawn(self) -> bool:
        """Whether it shows what it was told last, or has no room for it."""
        wanted = (self.size, self._of)
        return self._build is None or self.size.height < 4 or wanted == self._drawn

    def _build_soon(self) -> None:
        if self._build is None or self._building or self.is_drawn:
            return
        self._building = True
        self._drawn = (self.size, self._of)
        self.run_worker(self._draw(self._build), exclusive=False, exit_on_error=True)

    async def _draw(self, build: Build) -> None:
        width, height = self.size.width, self.size.height
        try:
            text = await asyncio.to_thread(build, width, height)
        finally:
            self._building = False
        # During that, it may have been told to say something.
        if self._build is not None and text.plain != self._text.plain:
            self._text = text
            self.refresh()
        # What came while this was built is drawn next.
        self._build_soon()
