"""The client's part that plans and rehearses; see `backend.api.client.backend_client`.

Data libraries are loaded by its methods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backend.domain.planning.requests import (
        PlanAnswer,
        PlanRequest,
        RehearsalAnswer,
        RehearsalRequest,
    )


class PlanningClient:
    """What `BackendClient` adds to by knowing how to send it."""

    def propose(self, request: PlanRequest) -> PlanAnswer:
        """A plan for a goal, by what the backend saw of the cluster last; nothing is changed.

        Raises:
            BackendError: the goal names what is not there (`status` 422), or it takes too long or
                others wait (409).
        """
        from backend.api.schema.plans import plan_request_json, read_plan_answer

        return read_plan_answer(self._post("/v1/plans", plan_request_json(request), endless=True))

    def rehearse(self, request: RehearsalRequest) -> RehearsalAnswer:
        """How a plan would go; nothing is changed.

        Raises:
            BackendError: it cannot be started there (`status` 422), or it takes too long or others
                wait (409).
        """
        from backend.api.schema.plans import read_rehearsal_answer, rehearsal_request_json

        body = rehearsal_request_json(request)
        return read_rehearsal_answer(self._post("/v1/rehearsals", body, endless=True))

    # Sending is `BackendClient`'s.

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        raise NotImplementedError
