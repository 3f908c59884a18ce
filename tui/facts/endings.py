"""What an operator is told when an operation ends, whatever view is in sight.

Pure: the store says what was seen of the operation, the application says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import bytes_text, duration_text, many
from kshunt.tui.facts.progress import copied_rows
from kshunt.tui.facts.snapshot_facts import Facts, known_sum
from kshunt.tui.text.fitting import printable

_ANNOUNCED: Final = frozenset(
    (
        OperationKind.REASSIGN,
        OperationKind.ADOPT,
        OperationKind.SHRINK,
        OperationKind.DELETE_PARTITIONS,
    )
)
"""Other kinds end while the operator still looks at the wizard that started them."""


@dataclass(frozen=True, slots=True)
class Ending:
    """An operation that this dashboard saw running, and that has ended."""

    operation: Operation
    copied_bytes: int = UNKNOWN
    """What its new replicas hold."""
    isr_drops_max: int = UNKNOWN
    """The most partitions that were under-replicated at one time while it was watched."""

    @property
    def good(self) -> bool:
        """Whether it carried out what was asked for."""
        return self.operation.state is OperationState.DONE

    @property
    def parts(self) -> list[str]:
        """`28 partitions of orders: done in 19m07s`, `97 GB copied`, `throttle off`, ..."""
        operation = self.operation
        parts = [f"{printable(operation.summary)}: {operation.state.words}{_took(operation)}"]
        if self.copied_bytes > 0:
            parts.append(f"{bytes_text(self.copied_bytes)} copied")
        if not self.good and operation.outcome:
            parts.append(printable(operation.outcome))
        parts += _throttle(operation)
        if self.isr_drops_max == 0:
            parts.append("no ISR drop")
        elif self.isr_drops_max > 0:
            parts.append(f"up to {many(self.isr_drops_max, 'partition')} under-replicated")
        return parts

    @property
    def text(self) -> str:
        """All of it as one sentence."""
        return f"{', '.join(self.parts)}."


def copied_bytes(facts: Facts, operation: Operation, before: Operation) -> int:
    """What the new replicas of an operation hold at its end; UNKNOWN where nothing tells.

    `facts` are of the last look before it, `before` is the operation at that time. If it is done,
    what a replica lacked then was copied since: else it would not be in the ISR. Otherwise nobody
    can tell, and only what was seen counts.
    """
    rows = copied_rows(facts, before)
    copied, _ = known_sum(facts.rows.size_bytes[rows])
    if copied == UNKNOWN or operation.state is not OperationState.DONE:
        return copied
    lacked, _ = known_sum(facts.rows.lag_bytes[rows & ~facts.rows.in_isr])
    return copied + max(lacked, 0)


def ended_between(before: Sequence[Operation], after: Sequence[Operation]) -> list[Operation]:
    """The operations that ran before and have ended after, as they were before."""
    ran = {one.id: one for one in before if not one.state.ended and one.kind in _ANNOUNCED}
    return [ran[one.id] for one in after if one.state.ended and one.id in ran]


def _took(operation: Operation) -> str:
    if operation.ended_ms is None:
        return ""
    return f" in {duration_text((operation.ended_ms - operation.started_ms) / 1000)}"


def _throttle(operation: Operation) -> list[str]:
    """Whether its throttle is off; nothing where it had none, or an end left that open."""
    if operation.throttle_bytes_per_s is None:
        return []
    if not operation.auto_remove_throttle:
        return ["throttle still set"]
    return ["throttle off"] if operation.state is OperationState.DONE else []
