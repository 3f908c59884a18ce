"""The client's part for plans: proposed for a goal, and rehearsed.

Data libraries are loaded where plans and rehearsals are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshunt.backend.api.client.sending.sender import Subject

if TYPE_CHECKING:
    from kshunt.backend.domain.planning.requests import (
        PlanAnswer,
        PlanRequest,
        RehearsalAnswer,
        RehearsalRequest,
    )


class PlansClient(Subject):
    """Nothing is changed."""

    def propose(self, request: PlanRequest) -> PlanAnswer:
        """A plan for a goal, by what the backend saw of the cluster last; nothing is changed.

        Raises:
            BackendError: the goal names what is not there (`status` 422), or it takes too long or
                others wait (409).
        """
        from kshunt.backend.api.schema.plans import PlanProposal, plan_request_body

        body = plan_request_body(request)
        return self._sender.send(PlanProposal, "/v1/plans", body, endless=True).answer()

    def rehearse(self, request: RehearsalRequest) -> RehearsalAnswer:
        """How a plan would go; nothing is changed.

        Raises:
            BackendError: it cannot be started there (`status` 422), or it takes too long or others
                wait (409).
        """
        from kshunt.backend.api.schema.plans import Rehearsals, rehearsal_request_body

        body = rehearsal_request_body(request)
        return self._sender.send(Rehearsals, "/v1/rehearsals", body, endless=True).answer()
