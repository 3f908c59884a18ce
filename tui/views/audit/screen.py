"""The audit over the operations view: a table with a filter, and each entry in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.tui.actions import bind, dialog_bindings
from kshunt.tui.dialogs.dialog import CLOSE_KEYS, SCROLL_KEYS, Dialog, Lines, fact_lines
from kshunt.tui.grid.grid import Grid
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.views.audit.table import AuditRow

KEYS = "/ filters   Enter opens   w writes a file   Esc closes"
EXAMPLE = "op:ab12 who:ada since:2h event:started, or any word"


class AuditScreen(Dialog[None]):
    """Who did what, when and why; newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False),
        Binding("enter", "entry", "Entry", show=False),
        Binding("q", "leave", "Close", show=False),
        Binding("w", "write", "Write it", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self, app: Dashboard, operation: str = "") -> None:
        """`operation` is looked for at first; empty for every one."""
        super().__init__("Audit")
        bind(self, dialog_bindings("audit", "leave"))
        self._kshunt = app
        self._lines: tuple[AuditLine, ...] = ()
        self._first = f"op:{operation}" if operation else ""

    def compose_body(self) -> Iterable[Widget]:
        """The filter, the lines, the keys."""
        yield Input(self._first, id="filter", placeholder=EXAMPLE, compact=True)
        yield Grid(id="lines", glyphs=self._kshunt.glyphs)
        yield Lines(KEYS, id="keys", classes="hint")

    def on_mount(self) -> None:
        """Ask for the lines; the table has the focus."""
        self.query_one("#filter", Input).cursor_blink = False
        self.grid.empty_text = "Reading the audit."
        self.grid.focus()
        run_latest(self, self._read, "audit")

    @property
    def grid(self) -> Grid:
        """The lines."""
        return self.query_one("#lines", Grid)

    async def _read(self) -> None:
        if self._kshunt.playback.past:
            audits = self._kshunt.store.scene.audits.values()
            lines = [line for lines in audits for line in lines]
            self._lines = tuple(sorted(lines, key=lambda line: line.time_ms or 0))
            self._show()
            return
        try:
            self._lines = await self._kshunt.link.ask(lambda client: client.audit.lines())
        except KshuntError as error:
            self.grid.show_message(str(error))
            return
        self._show()

    def _show(self) -> None:
        """What the filter lets through; while it cannot be meant, say so and keep the last one."""
        from kshunt.tui.views.audit.table import audit_table, parse_audit_filter

        text = self.query_one("#filter", Input).value
        keys = self.query_one("#keys", Lines)
        try:
            wanted = parse_audit_filter(text)
        except BadInput as error:
            keys.say(str(error))
            keys.set_class(True, "-bad")
            return
        keys.set_class(False, "-bad")
        table = audit_table(self._lines, wanted, self._kshunt.store.now_ms)
        self.grid.show_message(self._nothing(text))
        self.grid.show_table(table)
        of = "recorded" if self._kshunt.playback.past else ""
        keys.say(f"{len(table):,} of {len(self._lines):,} {of}".rstrip() + f"   {KEYS}")

    def _nothing(self, text: str) -> str:
        """Why there are no lines."""
        unknown = self._kshunt.playback.unrecorded
        if unknown and not self._has_recorded(text):
            return f"{unknown[:1].upper()}{unknown[1:]}."
        return "Nothing matches; / changes the filter." if text else "It is empty."

    def _has_recorded(self, text: str) -> bool:
        """Whether the recording holds the audit of the one operation that is looked for, or any."""
        audits = self._kshunt.store.scene.audits
        one = text.removeprefix("op:")
        return one in audits if text == f"op:{one}" else bool(audits)

    @on(Input.Changed, "#filter")
    def _typed(self) -> None:
        self._show()

    @on(Input.Submitted, "#filter")
    def _done(self) -> None:
        self.grid.focus()

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one("#filter", Input).focus()

    def action_close(self) -> None:
        """Leave the filter line; drop the filter; close."""
        line = self.query_one("#filter", Input)
        if line.has_focus:
            self.grid.focus()
        elif line.value and line.value != self._first:
            line.value = ""
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)

    def action_entry(self) -> None:
        """The whole entry under the cursor."""
        from kshunt.tui.tables.list_table import ListTable

        table, key = self.grid.table, self.grid.cursor_key
        row = table.value_of(key) if isinstance(table, ListTable) and key is not None else None
        if row is not None:
            self.app.push_screen(EntryScreen(row))

    def action_write(self) -> None:
        """Write the audit to a file; of the operation under the cursor at first."""
        store = self._kshunt.store
        operation = store.scene.operation(self._first.removeprefix("op:"))
        self.dismiss(None)
        self._kshunt.workflows.export(operation)


class EntryScreen(Dialog[None]):
    """One entry of the audit in full."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE_KEYS,
        *SCROLL_KEYS,
    ]

    def __init__(self, row: AuditRow) -> None:
        super().__init__("Entry of the audit")
        self._row = row

    def compose_body(self) -> Iterable[Widget]:
        """Label by label."""
        from kshunt.tui.views.audit.table import entry_facts

        with VerticalScroll(id="details", can_focus=False):
            yield from fact_lines(entry_facts(self._row))
        yield Lines("Esc closes", classes="hint")

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#details").scroll_relative(y=rows, animate=False)
