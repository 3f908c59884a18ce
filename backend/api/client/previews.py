"""The client's part for previews: what a change would touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kshunt.backend.api.client.sending.sender import Subject
from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.throttles import rates_json, replicas_json
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.untrusted.json_codec import to_document


class PreviewsClient(Subject):
    """Nothing is changed."""

    def start(self, plan: ReassignmentPlan, throttle_bytes_per_s: int | None = None) -> Preview:
        """What starting a plan would touch."""
        return self._preview(
            "start",
            plan=to_document(PlanDocument.of(plan)),
            throttle_bytes_per_s=throttle_bytes_per_s,
        )

    def cancel(self, partitions: Sequence[TopicPartition]) -> Preview:
        """What cancelling partitions would touch."""
        return self._preview("cancel", partitions=list(map(to_document, partitions)))

    def elect(self, partitions: Sequence[TopicPartition] | None) -> Preview:
        """What electing preferred leaders would touch; of every partition if None."""
        named = None if partitions is None else list(map(to_document, partitions))
        return self._preview("elect", partitions=named)

    def throttle(
        self,
        rates: Mapping[int, ThrottledRate] | None = None,
        replicas: Mapping[str, ThrottledReplicas] | None = None,
    ) -> Preview:
        """What changing throttles would touch."""
        return self._preview(
            "throttle", rates=rates_json(rates or {}), replicas=replicas_json(replicas or {})
        )

    def operation(self, verb: Literal["cancel", "pause", "undo"], operation_id: str) -> Preview:
        """What a verb would touch that is done to an operation."""
        return self._preview(verb, operation_id=operation_id)

    def _preview(self, action: str, **about: Any) -> Preview:
        return self._sender.send(Preview, "/v1/preview", {"action": action, **about})
