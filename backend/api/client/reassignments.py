"""The client's part for reassignments: what moves, and plans, looked at, started and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.reassignments import (
    GeneratedPlans,
    MovingPartitions,
    ProgressRows,
)
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.reassignment.answers import (
    ChangeAnswer,
    GeneratedPlan,
    ProgressRow,
    VerifyAnswer,
)
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.untrusted.json_codec import to_document


class ReassignmentsClient(Requests):
    """Options are those of every change: see `backend_client`."""

    def reassignments(self) -> tuple[OngoingReassignment, ...]:
        """Every partition that moves now, asked of the cluster."""
        found = self._ask(MovingPartitions, "/v1/reassignments")
        return tuple(one.move() for one in found.reassignments)

    def reassign(
        self,
        plan: ReassignmentPlan,
        *,
        throttle_bytes_per_s: int | None = None,
        log_dirs_throttle_bytes_per_s: int | None = None,
        auto_remove_throttle: bool = True,
        additional: bool = False,
        caps: MoveCaps | None = None,
        allow_replication_factor_change: bool = True,
        all_or_nothing: bool = False,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Start moving partitions (KIP-179, reassignPartitions); all at once without `caps`.

        Each partition is answered for itself, but with `all_or_nothing`.
        """
        body = {
            "plan": to_document(PlanDocument.of(plan)),
            "throttle_bytes_per_s": throttle_bytes_per_s,
            "log_dirs_throttle_bytes_per_s": log_dirs_throttle_bytes_per_s,
            "auto_remove_throttle": auto_remove_throttle,
            "additional": additional,
            "caps": None if caps is None else asdict(caps),
            "allow_replication_factor_change": allow_replication_factor_change,
            "all_or_nothing": all_or_nothing,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/reassignments", body)

    def cancel(
        self,
        partitions: Sequence[TopicPartition],
        *,
        preserve_throttles: bool = False,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Return moving partitions to their original replicas."""
        body = {
            "partitions": [to_document(partition) for partition in partitions],
            "preserve_throttles": preserve_throttles,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/reassignments/cancel", body)

    def progress(self, plan: ReassignmentPlan) -> tuple[ProgressRow, ...]:
        """How far each replica of the plan is (KIP-179, --progress)."""
        body = {"plan": to_document(PlanDocument.of(plan))}
        return self._send(ProgressRows, "/v1/reassignments/progress", body).rows

    def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """Whether the plan is done; clears its throttles if it is and they are not preserved."""
        body = {
            "plan": to_document(PlanDocument.of(plan)),
            "preserve_throttles": preserve_throttles,
        }
        return self._send(VerifyAnswer, "/v1/reassignments/verify", body)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        body = {"topics": list(topics), "brokers": list(brokers), "rack_aware": rack_aware}
        return self._send(GeneratedPlans, "/v1/reassignments/generate", body).plans()
