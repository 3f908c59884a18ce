"""Drift in the audit: each change by somebody else is a line, once, when it is found.

A change that goes away and comes back is a new one. A backend that takes over reads in the audit
what was told before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.operations.audit.lines import audited_throttles
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift

Drift: TypeAlias = RateDrift | ListDrift


class DriftAudit:
    """See the module's text."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._audited: frozenset[str] | None = None
        """What stands in the audit of the drift that there is; None: not looked up yet."""

    async def tell(self, found: Iterable[Drift]) -> None:
        """Write a line for each operation whose throttle drifted since it was last told.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        drift = tuple(found)
        audited = self._audited
        if audited is None:
            audited = self._before() if drift else frozenset()
        by_operations: dict[tuple[str, ...], list[Drift]] = {}
        for one in drift:
            if str(one) not in audited:
                by_operations.setdefault(one.operations, []).append(one)
        for operations, new in by_operations.items():
            await self._registry.tell(self._line(operations, new))
        self._audited = frozenset(map(str, drift))

    def _before(self) -> frozenset[str]:
        """What the audit says of drift of operations that have not ended."""
        unfinished = set(self._registry.unfinished)
        return frozenset(
            words
            for body in self._registry.audit
            if body.get("event") == AuditEvent.DRIFT_FOUND.value
            and body.get("operation_id") in unfinished
            for words in audited_throttles(body)
        )

    def _line(self, operations: tuple[str, ...], new: list[Drift]) -> AuditEntry:
        operation = self._registry.get(operations[0]) if operations else None
        words = f"somebody else changed {many(len(new), 'throttle')}"
        if others := operations[1:]:
            words += f"; operation {listed(others, 3)} also has a share"
        return AuditEntry(
            time_ms=0,
            number=0,
            event=AuditEvent.DRIFT_FOUND,
            operation_id=operations[0] if operations else "",
            kind="" if operation is None else operation.kind.value,
            touched=Touched.of(
                brokers=(one.broker for one in new if isinstance(one, RateDrift)),
                topics=(one.topic for one in new if isinstance(one, ListDrift)),
                throttles=map(str, new),
            ),
            outcome=words,
        )
