"""Everything about one row, for terminals that have no room for every column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.tui.actions import bind, dialog_bindings
from kshunt.tui.dialogs.dialog import CLOSE_KEYS, SCROLL_KEYS, Dialog, Lines
from kshunt.tui.tables.model import RowKey, Table
from kshunt.tui.tables.row_texts import labelled
from kshunt.tui.text.fitting import printable


class RowDetailsScreen(Dialog[None]):
    """Labels and values of a row, as it is: they follow what comes in while they are open."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE_KEYS, *SCROLL_KEYS]

    def __init__(
        self,
        title: str,
        describe: Callable[[], Sequence[tuple[str, str]]],
        mend: Callable[[], None] | None = None,
    ) -> None:
        """`describe` says label and value of each line, whenever it is asked.

        `mend` opens the change that helps the row.
        """
        super().__init__(title)
        self._describe, self._mend = describe, mend
        if mend is not None:
            bind(self, dialog_bindings("fix", "mend"))

    def compose_body(self) -> Iterable[Widget]:
        """The lines."""
        with VerticalScroll(id="details"):
            yield Lines(id="said")
        yield Lines("j k scroll, Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Let the arrow keys scroll, and follow the store."""
        from kshunt.tui.shell.dashboard import Dashboard

        assert isinstance(self.app, Dashboard)
        self.app.changed.subscribe(self, lambda _: self.show())
        self.query_one("#details").focus()
        self.call_after_refresh(self.show)

    def on_resize(self) -> None:
        """Wrap again."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Say how it is; nothing is painted where it is as it was."""
        # Of the box, its edges and the hint stay in sight.
        self.query_one("#details").styles.max_height = max(self.app.size.height - 3, 1)
        lines = self.query_one("#said", Lines)
        text = aligned(self._describe(), max(lines.size.width, 20))
        if text.plain != lines.plain:
            lines.say(text)

    def action_mend(self) -> None:
        """Close, and open the change that helps."""
        self.dismiss(None)
        if self._mend is not None:
            self._mend()

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#details").scroll_relative(y=rows, animate=False)


def aligned(facts: Sequence[tuple[str, str]], width: int) -> Text:
    """Label and value, one a line; long values wrap under themselves."""
    room = max((len(label) for label, _ in facts), default=0) + 2
    text = Text(end="")
    for label, value in facts:
        for number, row in enumerate(_rows(printable(value), max(width - room, 8))):
            text.append("\n" if text.plain else "")
            text.append((label if number == 0 else "").ljust(room), "dim")
            text.append(row.rstrip())
    return text


def _rows(value: str, room: int) -> list[str]:
    """What fits stays as it is, with the blanks that align it."""
    return [value] if len(value) <= room else wrap(value, room)


def details(table: Table, key: RowKey) -> list[tuple[str, str]]:
    """Label and value of every column of the row with this key; what is urgent comes first."""
    row = table.row_of(key)
    if row is None:
        return [("", "This row no longer exists.")]
    return [*table.first(row), *labelled(table, row), *table.more(row)]
