"""The client's part that shrinks a topic durably; see `backend.api.client.backend_client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from backend.api.schema.base import read_change
from backend.domain.reassignment.answers import ChangeAnswer
from backend.domain.shrink.phases import ShrinkRequest


class ShrinkingClient:
    """What `BackendClient` adds to by knowing how to send it."""

    def shrink(
        self,
        request: ShrinkRequest,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Let a topic have fewer partitions, by copying it; the answer names the operation.

        Raises:
            BackendError: something speaks against it that was not or cannot be insisted upon, or
                the topic is being shrunk already (`status` 409); it cannot be meant (422).
        """
        body = {
            "total_count": request.total_count,
            "delay_ms": request.delay_ms,
            "cut_over": request.cut_over.value,
            "target": request.target,
            "write_block": request.write_block,
            "insisted": list(request.insisted),
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        path = f"/v1/topics/{quote(request.topic, safe='')}/shrink"
        return read_change(self._post(path, body))

    def confirm_shrink(
        self,
        operation_id: str,
        typed: str,
        *,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Agree to what a shrink cannot take back.

        Raises:
            BackendError: it does not wait for that (any more), or the topic has another name.
        """
        body = {"typed": typed, "cluster_id": cluster_id, "who": who, "reason": reason}
        path = f"/v1/operations/{quote(operation_id, safe='')}/confirm"
        return read_change(self._post(path, body))

    # Sending is `BackendClient`'s.

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        raise NotImplementedError
