"""A line of the audit as the dashboard shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the audit, as far as the dashboard shows it."""

    time_ms: int | None
    """None where the line does not tell."""
    event: str
    who: str = ""
    text: str = ""
    operation: str = ""
    """The id of the operation that it is about; empty where it is about none."""
    kind: str = ""
    reason: str = ""
    outcome: str = ""
    touched: tuple[str, ...] = ()
    """One sentence for each kind of thing that was touched, with the first of them by name."""
    backend: str = ""
    """The id of the backend that saw to it."""
