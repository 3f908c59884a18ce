"""The client's part for operations: what they are, how they are steered, and remarks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import quote

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.operations import Operations
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.settings import LIMITS

Verb = Literal["pause", "resume", "cancel", "undo"]

DEFAULT_CAPS: Final = MoveCaps(LIMITS.moves_per_broker, LIMITS.moves_in_cluster)
"""Moves in flight where an operator asks for caps and names none."""


class OperationsClient(Requests):
    """Options are those of every change: see `backend_client`."""

    def operations(self) -> tuple[Operation, ...]:
        """What this backend was asked to do, newest first."""
        return self._ask(Operations, "/v1/operations").operations

    def steer(
        self,
        verb: Verb,
        operation_id: str,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Pause, resume, cancel or undo an operation."""
        body = {
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, f"/v1/operations/{operation_id}/{verb}", body)

    def abandon(
        self,
        operation_id: str,
        brokers: Sequence[int],
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """End an operation although brokers that are gone for good still have its throttle."""
        body = {
            "brokers": list(brokers),
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, f"/v1/operations/{operation_id}/abandon", body)

    def claim(
        self,
        operation_id: str,
        *,
        take_over: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> Operation:
        """Say that one steers an operation.

        Raises:
            BackendError: another one does and it shall not be taken over, or it has ended (409); a
                name or a reason is missing (422).
        """
        body = {"take_over": take_over, "cluster_id": cluster_id, "who": who, "reason": reason}
        return self._send(Operation, f"{_operation(operation_id)}/claim", body)

    def release(
        self, operation_id: str, *, cluster_id: str | None = None, who: str = "", reason: str = ""
    ) -> Operation:
        """Say that one steers it no more."""
        body = {"cluster_id": cluster_id, "who": who, "reason": reason}
        return self._send(Operation, f"{_operation(operation_id)}/release", body)

    def add_note(
        self, operation_id: str, text: str, *, cluster_id: str | None = None, who: str = ""
    ) -> Operation:
        """Remark on an operation, for everybody and for the audit."""
        body = {"text": text, "cluster_id": cluster_id, "who": who}
        return self._send(Operation, f"{_operation(operation_id)}/notes", body)


def _operation(operation_id: str) -> str:
    return f"/v1/operations/{quote(operation_id, safe='')}"
