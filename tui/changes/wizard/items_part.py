"""A part with facts and items: where there is little room both get shorter, and nothing else does.

The keys that agree stand below it, so it may never be taller than what is left for it.
"""

from __future__ import annotations

from typing import Final

from textual.containers import Vertical
from textual.widget import Widget

from kshunt.tui.dialogs.dialog import Composed
from kshunt.tui.grid.grid import Grid

FRAME_LINES: Final = 2
"""Of a dialogue."""
ITEMS_LEAST: Final = 2
"""The head of the items, and one of them."""


class ItemsPart(Composed, Vertical):
    """`#facts` above `#results`, and lines around them."""

    def __init__(self) -> None:
        super().__init__(classes="part")
        self.items_most = 0
        """How many lines the items get where there is room, their head included."""
        self.facts_most = 0
        """How many lines the facts get where there is room."""
        self._most = 0

    def fit(self, most: int) -> None:
        """Take `most` lines at most; to be called again when there are more or fewer."""
        self._most = most
        # One of them comes, and goes, before the other.
        for facts, items in zip(self.query("#facts"), self.query("#results"), strict=False):
            others = (one for one in self.children if one not in (facts, items))
            taken = sum(one.outer_size.height + one.styles.margin.height for one in others)
            room = max(most - taken, 0)
            there = min(facts.virtual_size.height, self.facts_most)
            rows = min(self.items_most, max(room - there, ITEMS_LEAST))
            items.styles.height = rows
            facts.styles.max_height = max(min(self.facts_most, room - rows), 1)

    def fit_again(self) -> None:
        """Other lines are shown."""
        if self._most:
            self.fit(self._most)

    def scroll(self, rows: int) -> None:
        """Move through the items, once they are there."""
        for grid in self.query(Grid):
            grid.action_cursor(rows)

    def page(self, pages: int) -> None:
        """Scroll the items and the facts above them."""
        self.scroll(5 * pages)
        around = (self.parent,) if isinstance(self.parent, Widget) else ()
        for lines in (*self.query("#facts"), *around):
            lines.scroll_relative(y=5 * pages, animate=False)
