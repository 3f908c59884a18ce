"""A table whose row is told in full: below it, or in a dialogue where there is no room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual import events, on
from textual.widget import Widget

from kshunt.tui.grid.grid import Grid
from kshunt.tui.grid.pane import Pane
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.model import RowKey
from kshunt.tui.views.table_screen import TableScreen

PANE_HEIGHT_LEAST: Final = 36
"""Lines of the terminal from which on the details stand below the table."""


class PaneScreen(TableScreen):
    """Subclasses say which rows can be told in full, and what is said of one."""

    _pane_open = False
    """Whether the details stand below the table, where there is room."""

    def can_tell(self, key: RowKey) -> bool:
        """Whether this row is one of which everything can be said."""
        raise NotImplementedError

    def title_of(self, key: RowKey) -> str:
        """What the row is called."""
        raise NotImplementedError

    def lines_of(self, key: RowKey) -> list[PaneLine]:
        """Everything about the row."""
        raise NotImplementedError

    def lines_most(self) -> int | None:
        """The most lines about the row that the pane shows below the table; None for all."""
        return None

    def compose_below(self) -> Iterable[Widget]:
        """The details of the row under the cursor."""
        yield Pane(glyphs=self.kshunt.glyphs, id="about")

    def update_view(self) -> None:
        """The pane follows the table."""
        super().update_view()
        self._show_pane()

    def on_resize(self, event: events.Resize) -> None:
        """There may be room for the pane, or none any more."""
        super().on_resize(event)
        self.call_after_refresh(self._show_pane)

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self._pane_open and self.query(Pane) and self.query("#grid"):
            self._show_pane()

    def action_details(self) -> None:
        """Below the table where there is room for them, else in a dialogue."""
        key = self.grid.cursor_key
        if key is None or not self.can_tell(key):
            super().action_details()
        elif self._is_tall:
            self._pane_open = not self._pane_open
            self._show_pane()
        elif self.kshunt.store.facts is not None:
            self._open_details(key)

    def _open_details(self, key: RowKey) -> None:
        from kshunt.tui.dialogs.row_details import RowDetailsScreen

        def said() -> list[tuple[str, str]]:
            return [(line.label, line.text) for line in self.lines_of(key)]

        self.app.push_screen(RowDetailsScreen(self.title_of(key), said, self.action_fix))

    @property
    def _is_tall(self) -> bool:
        return self.app.size.height >= PANE_HEIGHT_LEAST

    def _show_pane(self) -> None:
        if not self.display:
            return  # It is being taken down, and this was to be done after the last paint.
        pane, key = self.query_one("#about", Pane), self.grid.cursor_key
        # The first frame is shown before data libraries are loaded: `can_tell` may need them.
        if not self._pane_open or not self._is_tall or key is None or not self.can_tell(key):
            pane.show("", ())
        else:
            pane.show(self.title_of(key), self.lines_of(key)[: self.lines_most()])
