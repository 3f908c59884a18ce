"""The chooser: contexts, recent clusters, running backends, the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.options import DialogOptionList
from kshunt.tui.shell.contexts import ClusterChoice, Contexts, Origin
from kshunt.tui.text.fitting import printable

TITLES: Final = {
    Origin.CONTEXT: "Contexts of the configuration",
    Origin.RECENT: "Recently opened",
    Origin.RUNNING: "Running backends",
    Origin.DEMO: "Without a cluster of your own",
}
NAME_MOST: Final = 32
"""Cells that a title keeps before what is said of it."""


class ContextsScreen(Dialog[ClusterChoice]):
    """Answers with the cluster to open, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("q", "close", "Close", show=False),
    ]

    def __init__(self, contexts: Contexts, *, leaves: bool = False) -> None:
        """`leaves`: nothing is below, so that closing the chooser leaves kshunt."""
        super().__init__("Choose a cluster")
        self._contexts = contexts
        self._leaves = leaves
        self._choices: tuple[ClusterChoice, ...] = ()
        self._rows: list[ClusterChoice | None] = []
        """What each line of the list opens; None for a heading."""

    def compose_body(self) -> Iterable[Widget]:
        """What happened, if the last choice failed; the choices."""
        if self._contexts.failure:
            yield Lines(self._contexts.failure, id="failure", classes="-bad")
        yield DialogOptionList(compact=True)
        yield Lines("Looking for running backends ...", id="hint", classes="hint")

    def on_mount(self) -> None:
        """Show what files say immediately, and then what runs."""
        self._show(self._contexts.known())
        self.query_one(DialogOptionList).focus()
        self.ask(self._look)

    async def _look(self) -> None:
        found = await asyncio.to_thread(self._contexts.looked_up)
        self._show(found)
        closes = "leaves" if self._leaves else "closes"
        self.query_one("#hint", Lines).say(f"Enter opens, Esc {closes}")

    def _show(self, choices: Sequence[ClusterChoice]) -> None:
        """Replace the list; the cursor stays on its choice."""
        options = self.query_one(DialogOptionList)
        here = self._here(options.highlighted)
        self._choices = tuple(choices)
        self._rows = []
        shown: list[Option] = []
        for origin in Origin:
            group = [one for one in choices if one.origin is origin]
            if group:
                shown.append(Option(Text(TITLES[origin], "bold"), disabled=True))
                self._rows += [None, *group]
                shown += [Option(self._line(one)) for one in group]
        options.clear_options()
        options.add_options(shown)
        wanted = self._contexts.present if here is None else here.command
        openable = [row for row, choice in enumerate(self._rows) if choice is not None]
        same = [row for row in openable if self._command(row) == wanted]
        options.highlighted = next(iter([*same, *openable]), None)

    def _here(self, row: int | None) -> ClusterChoice | None:
        return self._rows[row] if row is not None and row < len(self._rows) else None

    def _command(self, row: int) -> tuple[str, ...]:
        choice = self._rows[row]
        return () if choice is None else choice.command

    def _line(self, choice: ClusterChoice) -> Text:
        width = min(max(cell_len(printable(one.title)) for one in self._choices), NAME_MOST)
        title = printable(choice.title)
        state = "shown now" if choice.command == self._contexts.present else ""
        state = state or ("backend runs" if choice.answers else "")
        padded = title + " " * max(width - cell_len(title), 0)
        parts = [f"  {padded}", state, printable(choice.detail)]
        return Text("  ".join(part for part in parts if part).rstrip(), no_wrap=True)

    def action_move(self, rows: int) -> None:
        """Move as the arrow keys do."""
        self.query_one(DialogOptionList).move(rows)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        # The message may come from a list that `_show` has replaced.
        if (choice := self._here(event.option_index)) is not None:
            self.dismiss(choice)
