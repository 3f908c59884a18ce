"""What the journal is given of one step: an operation, whose the throttles are, and the audit."""

from __future__ import annotations

from backend.domain.audit.lines import AuditEntry
from backend.domain.operations.operation import Operation
from backend.operations.audit.operation_steps import line_of, step_line
from backend.operations.journal.entries import Body, operation_key
from backend.operations.ownership.ownership import Ownership
from backend.operations.state.operation_body import operation_body
from backend.operations.state.ownership_documents import changed_documents
from backend.operations.state.reassignment_work import ReassignmentWork
from backend.operations.state.shrink_work import ShrinkWork


def step_entries(
    before: Operation | None,
    after: Operation,
    work: ReassignmentWork | None,
    shrink: tuple[ShrinkWork | None, ShrinkWork | None],
    owned: tuple[Ownership, Ownership],
    backend: str,
    throttles: tuple[str, ...] | None,
) -> tuple[dict[str, Body | None], AuditEntry | None]:
    """What to write of an operation and of whose the throttles are, and its line of the audit.

    `shrink` and `owned` are those before and after; `throttles` as `Registry.put`.
    """
    entries: dict[str, Body | None] = {
        operation_key(after.id): operation_body(after, work, shrink[1]),
        **(changed_documents(*owned) if owned[0] is not owned[1] else {}),
    }
    line = line_of(before, after, work, owned, backend, throttles)
    return entries, line or step_line(*shrink, after, backend)
