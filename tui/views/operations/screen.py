"""The operations view: what the backend was asked to do, how it goes, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.widget import Widget

from kshunt.tui.actions import HELD, can, key_of
from kshunt.tui.actions.view_names import OPERATIONS
from kshunt.tui.data.team import held_words, my_name, others
from kshunt.tui.feed.polled_facts import BACKEND_STATUS, PRESENCE
from kshunt.tui.grid.grid import Grid
from kshunt.tui.grid.pane import Pane
from kshunt.tui.views.table_screen import TableScreen
from kshunt.tui.workers import run_latest

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.tui.tables.list_table import ListTable
    from kshunt.tui.views.operations.table import OperationRow

ROWS_LEAST = 5
"""Lines of the table, its header included, that the pane leaves."""
HEAD = 5
"""Lines of every view that are neither table nor pane."""


class OperationsScreen(TableScreen):
    """One row an operation, those that run first; the one under the cursor in full below."""

    VIEW: ClassVar[str] = OPERATIONS
    NOUN: ClassVar[str] = "operation"
    AT_TIMES: ClassVar[frozenset[str]] = frozenset({"claim"})

    _audit_of: tuple[object, ...] = ()
    """Of which operation, and what was so, when the audit was asked last."""

    def compose_below(self) -> Iterable[Widget]:
        """The pane."""
        yield Pane(glyphs=self.kshunt.glyphs, id="operation")

    def nothing_words(self) -> str:
        """Why there are no rows."""
        foreign = self.kshunt.store.foreign
        if foreign:
            others = f"{foreign:,} throttled moves of others ({key_of('adopt')})"
            return f"No request was made here; {others}."
        return (
            f"No request was made to this backend yet. {key_of('reassign')} starts a reassignment."
        )

    def conditions(self) -> set[str]:
        """What can be done with the operation under the cursor, too."""
        operation = self.chosen
        found = {can(a) for a in (operation.actions if operation else ())}
        if operation is not None and self._held(operation):
            found.add(HELD)
        return super().conditions() | found

    @property
    def chosen(self) -> Operation | None:
        """The operation under the cursor."""
        return self.kshunt.store.scene.operation(self.grid.cursor_key)

    def update_view(self) -> None:
        """The pane follows the table."""
        super().update_view()
        self._show_pane()

    @on(Grid.CursorMoved)
    def _cursor_moved(self) -> None:
        # The message may come while the screen is being taken down.
        if self.query(Pane) and self.query("#grid"):
            self._show_pane()
            self.offer_keys()

    def _show_pane(self) -> None:
        store, pane = self.kshunt.store, self.query_one("#operation", Pane)
        table, key = self.grid.table, self.grid.cursor_key
        room = self.app.size.height - HEAD - ROWS_LEAST - 1
        if table is None or key is None or store.facts is None or room < 3:
            pane.show("", ())
            return
        from kshunt.tui.views.operations.details import about, title_of

        row = cast("ListTable[OperationRow]", table).value_of(key)
        if row is None:
            return
        audit = store.scene.audits.get(row.operation.id)
        unknown, status = self.kshunt.playback.unrecorded, store.scene.answer(BACKEND_STATUS)
        record = None if status is None else status.forecast_record
        shared = bool(others(store.scene.answer(PRESENCE)))
        lines = about(
            *(row, store.facts, audit, self.kshunt.glyphs, room),
            record=record,
            unknown=unknown,
            shared=shared,
        )
        pane.show(title_of(row), lines)
        self._ask_audit(row.operation)

    def _ask_audit(self, operation: Operation) -> None:
        """The history of the operation, asked anew whenever it has become longer."""
        said = operation.claim, len(operation.notes)
        wanted = (operation.id, operation.state.value, operation.outcome, *said)
        if wanted != self._audit_of:
            self._audit_of = wanted
            audit = partial(self.kshunt.polling.audit, operation.id)
            run_latest(self, audit, "audit")

    @property
    def looked_at(self) -> str:
        """The operation under the cursor."""
        operation = self.chosen if self.query("#grid") else None
        return "" if operation is None else f"operation {operation.id}"

    # What can be done

    def _held(self, operation: Operation) -> str:
        """Why it has to be taken over before it is steered, or empty."""
        return held_words(operation, my_name(self.kshunt.store), key_of("claim"))

    def action_claim(self) -> None:
        """Claim the operation, release it, or take it over."""
        operation = self._named("claim")
        if operation is None:
            return
        if operation.state.ended:
            self.say("It has ended: it cannot be claimed.", "warn")
        else:
            self.kshunt.teamwork.claim(operation)

    def action_remark(self) -> None:
        """Write a note on the operation."""
        operation = self._named("remark")
        if operation is not None:
            self.kshunt.teamwork.remark(operation)

    def _named(self, id: str) -> Operation | None:
        """The operation under the cursor if something can be said of it; says so if not."""
        if self.refused(id):
            return None
        if self.chosen is None:
            self.say("There is no operation here.", "warn")
        return self.chosen

    def _able(self, id: str, action: str) -> Operation | None:
        """The operation under the cursor if this can be done with it; says so if not."""
        if self.refused(id):
            return None
        operation = self.chosen
        if operation is None:
            self.say("There is no operation here.", "warn")
        elif action not in operation.actions:
            others = ", ".join(operation.actions) or "none"
            state = operation.state.value
            why = f"It is {state}: {action} is not possible."
            backend_status = self.kshunt.store.scene.answer(BACKEND_STATUS)
            if not operation.state.ended and backend_status is not None:
                forbidden = dict(backend_status.not_offered).get(action, "")
                why = f"ZooKeeper does not support {action}: {forbidden}." if forbidden else why
            self.say(f"{why} Possible: {others}.", "warn")
        elif self._held(operation):
            self.say(self._held(operation), "warn")
        else:
            return operation
        return None

    def action_pause(self) -> None:
        """Hold the copies of the operation, or let them continue."""
        operation = self.chosen
        resumes = operation is not None and "resume" in operation.actions
        able = self._able("pause", "resume" if resumes else "pause")
        if able is not None:
            self.kshunt.workflows.steer(able, "resume" if resumes else "pause")

    def action_cancel_operation(self) -> None:
        """Return what the operation still moves."""
        operation = self._able("cancel_operation", "cancel")
        if operation is not None:
            self.kshunt.workflows.steer(operation, "cancel")

    def action_confirm_shrink(self) -> None:
        """Type the name of the topic that a shrink is about to replace."""
        operation = self._able("confirm_shrink", "confirm")
        if operation is not None:
            self.kshunt.workflows.confirm_shrink(operation)

    def action_undo(self) -> None:
        """Move back what the operation moved."""
        operation = self._able("undo", "undo")
        if operation is not None:
            self.kshunt.workflows.steer(operation, "undo")

    def action_abandon(self) -> None:
        """End the operation although brokers that are gone have its throttle."""
        operation = self._able("abandon", "abandon")
        if operation is not None:
            self.kshunt.workflows.abandon(operation)

    def action_audit(self) -> None:
        """Who did what, newest first; of the operation under the cursor at first."""
        from kshunt.tui.views.audit.screen import AuditScreen

        chosen = self.chosen
        self.app.push_screen(AuditScreen(self.kshunt, "" if chosen is None else chosen.id))

    def action_details(self) -> None:
        """The operation in full, and live."""
        from kshunt.tui.views.operations.operation_dialog import WatchScreen

        chosen = self.chosen
        if chosen is not None:
            self.app.push_screen(WatchScreen(self.kshunt, chosen.id), self._then)

    def _then(self, wanted: str | None) -> None:
        """What is wanted next of the operation that was watched."""
        if wanted is not None:
            getattr(self, f"action_{wanted}")()

    def action_export(self) -> None:
        """Write the audit to a file."""
        self.kshunt.workflows.export(self.chosen)
