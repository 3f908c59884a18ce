"""The operations view: what the backend was asked to do, and how far it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backend.domain.operation import Operation, OperationState
from tui.tables.base import Cell, Column, Order, RowKey
from tui.tables.small import Field, SmallTable
from tui.text import duration_text, names_text, rate_text

_KINDS: Final = {
    "reassign": "reassign",
    "cancel": "cancel",
    "throttled_rates": "rates",
    "throttled_replicas": "lists",
    "election": "election",
}
_TONES: Final = {
    OperationState.DONE: "good",
    OperationState.CANCELLED: "dim",
    OperationState.FAILED: "bad",
}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation, and the time by the backend's clock."""

    operation: Operation
    now_ms: int

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return max(self.now_ms - self.operation.started_ms, 0) / 1000

    @property
    def took_s(self) -> float:
        """Seconds from its beginning to its end, or until now."""
        ended = self.operation.ended_ms
        return max((ended or self.now_ms) - self.operation.started_ms, 0) / 1000


def operation_table(
    operations: Sequence[Operation], now_ms: int, order: Order
) -> SmallTable[OperationRow]:
    """Operations, newest first."""
    newest = sorted(operations, key=lambda operation: (operation.started_ms, operation.id))[::-1]
    rows: dict[RowKey, OperationRow] = {
        operation.id: OperationRow(operation, now_ms) for operation in newest
    }
    return SmallTable(FIELDS, rows, order, more=_more)


def _more(row: OperationRow) -> list[tuple[str, str]]:
    """Its id, by which the tools name it, and every partition."""
    operation = row.operation
    removal = "removed when the move ends" if operation.auto_remove_throttle else "stays"
    throttled = operation.throttle_bytes_per_s is not None
    return [
        ("Operation", operation.id),
        *([("Its throttle", removal)] if throttled else []),
        ("Partitions", names_text(operation.partitions, 40) or "-"),
    ]


def _throttle(row: OperationRow, width: int) -> Cell:
    rate = row.operation.throttle_bytes_per_s
    if rate is None:
        return Cell("-", "dim")
    kept = "" if row.operation.auto_remove_throttle else " kept"
    return Cell(rate_text(rate, tight=width < 10) + (kept if width >= 15 else ""))


def _outcome(row: OperationRow, width: int) -> Cell:
    tone = "bad" if row.operation.state is OperationState.FAILED else ""
    return Cell(row.operation.outcome, tone)


FIELDS: Final[tuple[Field[OperationRow], ...]] = (
    Field(
        Column("state", "State", 9, 0, 0),
        lambda row, width: Cell(
            row.operation.state.value, _TONES.get(row.operation.state, "strong")
        ),
        lambda row: row.operation.state.value,
    ),
    Field(
        Column("kind", "What", 8, 0, 1),
        lambda row, width: Cell(_KINDS.get(row.operation.kind.value, row.operation.kind.value)),
        lambda row: row.operation.kind.value,
    ),
    Field(
        Column("age", "Ago", 6, 0, 2, right=True),
        lambda row, width: Cell(duration_text(row.age_s)),
        lambda row: row.age_s,
    ),
    Field(
        Column("took", "Took", 6, 0, 5, right=True, extra=True),
        lambda row, width: Cell(duration_text(row.took_s), "dim"),
        lambda row: row.took_s,
    ),
    Field(
        Column("throttle", "Thr", 6, 15, 3, right=True, label="Throttle"),
        _throttle,
        lambda row: row.operation.throttle_bytes_per_s or 0,
    ),
    Field(
        Column("summary", "Summary", 20, 70, 0, grows=True, comfort=36),
        lambda row, width: Cell(row.operation.summary),
        lambda row: row.operation.summary,
    ),
    Field(
        Column("outcome", "Outcome", 14, 60, 4, grows=True, comfort=32),
        _outcome,
        lambda row: row.operation.outcome,
    ),
)
