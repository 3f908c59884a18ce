"""Drift that the audit of a period reports, over or not: how much, when, of what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, AuditRow


@dataclass(frozen=True, slots=True)
class PastDrift:
    """Throttles of ours that somebody else changed in the last day."""

    throttles: int = 0
    """How many changes were found; one that came back counts again."""
    newest_ms: int | None = None
    """When the newest was found, milliseconds since the epoch; None where none was."""
    operations: tuple[str, ...] = ()
    """Ids of the operations that needed them, the newest first."""


def past_drift(rows: Iterable[AuditRow]) -> PastDrift:
    """What these lines of the audit say of drift; oldest first, as the audit has them."""
    found = [
        row for row in rows if isinstance(row, AuditEntry) and row.event is AuditEvent.DRIFT_FOUND
    ]
    ids = dict.fromkeys(row.operation_id for row in reversed(found) if row.operation_id)
    return PastDrift(
        sum(row.touched.throttle_count for row in found),
        found[-1].time_ms if found else None,
        tuple(ids),
    )
