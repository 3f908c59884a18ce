"""A list of choices that may have no room at all."""

from __future__ import annotations

from contextlib import suppress

from textual.widgets import OptionList


class DialogOptionList(OptionList):
    """Textual's list, which cannot turn a page while it has no room for a line."""

    def move(self, rows: int) -> None:
        """Move as the arrow keys do: down, or up where `rows` is negative."""
        self.action_cursor_down() if rows > 0 else self.action_cursor_up()

    def action_page_up(self) -> None:
        """A page up."""
        with suppress(KeyError, IndexError):
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        """A page down."""
        with suppress(KeyError, IndexError):
            super().action_page_down()  # type: ignore[no-untyped-call]
