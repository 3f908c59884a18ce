"""What the journal is given of one step: an operation, whose the throttles are, and the audit."""

from __future__ import annotations

from backend.domain.operation import Operation
from backend.operations.audit import AuditEntry
from backend.operations.audit_lines import line_of, step_line
from backend.operations.journal_codec import Body, operation_key
from backend.operations.ownership import Ownership
from backend.operations.ownership_json import changed_documents
from backend.operations.record import operation_body
from backend.operations.shrink.work import ShrinkWork
from backend.operations.work import Work


def documents_of(
    before: Operation | None,
    after: Operation,
    work: Work | None,
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
