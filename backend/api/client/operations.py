"""The client's part for operations: what they are, how they are steered, and remarks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from kshunt.backend.api.client.sending.sender import UNCHECKED, UNPREVIEWED, Subject
from kshunt.backend.api.schema.operations import Operations
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.limits import LIMITS

DEFAULT_CAPS: Final = MoveCaps(LIMITS.moves_per_broker, LIMITS.moves_in_cluster)
"""Moves in flight where an operator asks for caps and names none."""


class OperationsClient(Subject):
    """What the backend was asked to do."""

    def list(self) -> tuple[Operation, ...]:
        """All that are known, newest first."""
        return self._sender.ask(Operations, "/v1/operations").operations

    def pause(self, operation_id: str, change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Hold its copies; nothing is cancelled."""
        return self._steer(operation_id, "pause", change)

    def resume(self, operation_id: str, change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Continue an operation that was paused."""
        return self._steer(operation_id, "resume", change)

    def cancel(self, operation_id: str, change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Return every partition of it that still moves."""
        return self._steer(operation_id, "cancel", change)

    def undo(self, operation_id: str, change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Move back what it moved, once it has ended."""
        return self._steer(operation_id, "undo", change)

    def abandon(
        self, operation_id: str, brokers: Sequence[int], change: Change = ANONYMOUS_CHANGE
    ) -> ChangeAnswer:
        """End an operation although brokers that are gone for good still have its throttle."""
        path, body = _path(operation_id, "abandon"), {"brokers": list(brokers)}
        return self._sender.change(ChangeAnswer, path, change, body, omit=UNPREVIEWED)

    def claim(
        self, operation_id: str, change: Change = ANONYMOUS_CHANGE, *, take_over: bool = False
    ) -> Operation:
        """Say that one steers an operation.

        Raises:
            BackendError: another one does and `take_over` is False, or the operation has ended
                (409); a name or a reason is missing (422).
        """
        body = {"take_over": take_over}
        path = _path(operation_id, "claim")
        return self._sender.change(Operation, path, change, body, omit=UNCHECKED)

    def release(self, operation_id: str, change: Change = ANONYMOUS_CHANGE) -> Operation:
        """Release a claim."""
        path = _path(operation_id, "release")
        return self._sender.change(Operation, path, change, {}, omit=UNCHECKED)

    def add_note(
        self, operation_id: str, text: str, change: Change = ANONYMOUS_CHANGE
    ) -> Operation:
        """Remark on an operation, for everybody and for the audit."""
        path, omit = _path(operation_id, "notes"), (*UNCHECKED, "reason")
        return self._sender.change(Operation, path, change, {"text": text}, omit=omit)

    def _steer(self, operation_id: str, verb: str, change: Change) -> ChangeAnswer:
        return self._sender.change(ChangeAnswer, _path(operation_id, verb), change, {})


def _path(operation_id: str, verb: str) -> str:
    return f"/v1/operations/{quote(operation_id, safe='')}/{verb}"
