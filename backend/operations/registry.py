"""The operations of one backend, and who is told when one of them changes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from backend.clock import Clock
from backend.domain.cluster import TopicPartition
from backend.domain.operation import Operation, OperationKind, OperationState
from backend.settings import LIMITS


class Registry:
    """Newest operations first; ended ones are kept up to `Limits.operations_kept`."""

    def __init__(self, clock: Clock, changed: Callable[[Operation], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._operations: dict[str, Operation] = {}

    def __iter__(self) -> Iterator[Operation]:
        return iter(reversed(tuple(self._operations.values())))

    def get(self, operation_id: str) -> Operation | None:
        """The operation of that id, or None."""
        return self._operations.get(operation_id)

    def begin(
        self,
        kind: OperationKind,
        summary: str,
        *,
        partitions: tuple[TopicPartition, ...] = (),
        throttle_bytes_per_s: int | None = None,
        auto_remove_throttle: bool = True,
        details: Mapping[str, Any] | None = None,
    ) -> Operation:
        """A new operation, in state STARTING."""
        operation = Operation(
            id=secrets.token_hex(4),
            kind=kind,
            state=OperationState.STARTING,
            started_ms=self._clock.now_ms(),
            summary=summary,
            partitions=partitions,
            throttle_bytes_per_s=throttle_bytes_per_s,
            auto_remove_throttle=auto_remove_throttle,
            details=details or {},
        )
        return self._put(operation)

    def move(self, operation_id: str, state: OperationState, outcome: str = "") -> Operation:
        """Put an operation into another state.

        Raises:
            Conflict: the move is not legal.
        """
        operation = self._operations[operation_id]
        return self._put(operation.to(state, at_ms=self._clock.now_ms(), outcome=outcome))

    def remark(self, operation: Operation) -> None:
        """Replace an operation that says something new in the same state."""
        if self._operations[operation.id] != operation:
            self._put(operation)

    def _put(self, operation: Operation) -> Operation:
        self._operations[operation.id] = operation
        ended = [o.id for o in self._operations.values() if o.state.ended]
        for operation_id in ended[: max(0, len(ended) - LIMITS.operations_kept)]:
            del self._operations[operation_id]
        self._changed(operation)
        return operation
