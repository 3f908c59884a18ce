"""The client's questions before a change: plans, rehearsals, and previews of what it would touch.

Data libraries are loaded where plans and rehearsals are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.throttles import rates_json, replicas_json
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.untrusted.json_codec import to_document

if TYPE_CHECKING:
    from kshunt.backend.domain.planning.requests import (
        PlanAnswer,
        PlanRequest,
        RehearsalAnswer,
        RehearsalRequest,
    )


class PlansClient(Requests):
    """Plans, rehearsals and previews: nothing is changed."""

    def propose(self, request: PlanRequest) -> PlanAnswer:
        """A plan for a goal, by what the backend saw of the cluster last; nothing is changed.

        Raises:
            BackendError: the goal names what is not there (`status` 422), or it takes too long or
                others wait (409).
        """
        from kshunt.backend.api.schema.plans import PlanProposal, plan_request_body

        body = plan_request_body(request)
        return self._send(PlanProposal, "/v1/plans", body, endless=True).answer()

    def rehearse(self, request: RehearsalRequest) -> RehearsalAnswer:
        """How a plan would go; nothing is changed.

        Raises:
            BackendError: it cannot be started there (`status` 422), or it takes too long or others
                wait (409).
        """
        from kshunt.backend.api.schema.plans import Rehearsals, rehearsal_request_body

        body = rehearsal_request_body(request)
        return self._send(Rehearsals, "/v1/rehearsals", body, endless=True).answer()

    def preview_start(
        self, plan: ReassignmentPlan, throttle_bytes_per_s: int | None = None
    ) -> Preview:
        """What starting a plan would touch."""
        return self._preview(
            "start",
            plan=to_document(PlanDocument.of(plan)),
            throttle_bytes_per_s=throttle_bytes_per_s,
        )

    def preview_cancel(self, partitions: Sequence[TopicPartition]) -> Preview:
        """What cancelling partitions would touch."""
        return self._preview("cancel", partitions=list(map(to_document, partitions)))

    def preview_elect(self, partitions: Sequence[TopicPartition] | None) -> Preview:
        """What electing preferred leaders would touch; of every partition if None."""
        named = None if partitions is None else list(map(to_document, partitions))
        return self._preview("elect", partitions=named)

    def preview_throttle(
        self,
        rates: Mapping[int, ThrottledRate] | None = None,
        replicas: Mapping[str, ThrottledReplicas] | None = None,
    ) -> Preview:
        """What changing throttles would touch."""
        return self._preview(
            "throttle", rates=rates_json(rates or {}), replicas=replicas_json(replicas or {})
        )

    def preview_operation(
        self, verb: Literal["cancel", "pause", "undo"], operation_id: str
    ) -> Preview:
        """What a verb would touch that is done to an operation."""
        return self._preview(verb, operation_id=operation_id)

    def _preview(self, action: str, **about: Any) -> Preview:
        return self._send(Preview, "/v1/preview", {"action": action, **about})
