"""The client's part for reassignments: what moves, and plans, looked at, started and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kshunt.backend.api.client.sending.sender import Subject
from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.api.schema.reassignments import (
    GeneratedPlans,
    MovingPartitions,
)
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.reassignment.answers import (
    ChangeAnswer,
    GeneratedPlan,
    VerifyAnswer,
)
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.untrusted.json_codec import to_document

if TYPE_CHECKING:
    from kshunt.backend.api.schema.progress import ProgressRows


class ReassignmentsClient(Subject):
    """What moves, and plans."""

    def list(self) -> tuple[OngoingReassignment, ...]:
        """Every partition that moves now, asked of the cluster."""
        found = self._sender.ask(MovingPartitions, "/v1/reassignments")
        return tuple(one.move() for one in found.reassignments)

    def start(
        self,
        plan: ReassignmentPlan,
        change: Change = ANONYMOUS_CHANGE,
        *,
        throttle_bytes_per_s: int | None = None,
        log_dirs_throttle_bytes_per_s: int | None = None,
        auto_remove_throttle: bool = True,
        additional: bool = False,
        caps: MoveCaps | None = None,
        allow_replication_factor_change: bool = True,
        all_or_nothing: bool = False,
        timeout_ms: int = 10_000,
        deadline_ms: int | None = None,
    ) -> ChangeAnswer:
        """Start moving partitions (KIP-179, reassignPartitions); all together without `caps`.

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
            "timeout_ms": timeout_ms,
            "deadline_ms": deadline_ms,
        }
        return self._sender.change(ChangeAnswer, "/v1/reassignments", change, body)

    def cancel(
        self,
        partitions: Sequence[TopicPartition],
        change: Change = ANONYMOUS_CHANGE,
        *,
        preserve_throttles: bool = False,
        timeout_ms: int = 10_000,
    ) -> ChangeAnswer:
        """Return moving partitions to their original replicas."""
        body = {
            "partitions": list(map(to_document, partitions)),
            "preserve_throttles": preserve_throttles,
            "timeout_ms": timeout_ms,
        }
        return self._sender.change(ChangeAnswer, "/v1/reassignments/cancel", change, body)

    def progress(self, plan: ReassignmentPlan) -> ProgressRows:
        """How far each replica of the plan is (KIP-179, --progress)."""
        from kshunt.backend.api.schema.progress import ProgressRows

        body = {"plan": to_document(PlanDocument.of(plan))}
        return self._sender.send(ProgressRows, "/v1/reassignments/progress", body)

    def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """Whether the plan is done; clears its throttles if it is and they are not preserved."""
        body = {
            "plan": to_document(PlanDocument.of(plan)),
            "preserve_throttles": preserve_throttles,
        }
        return self._sender.send(VerifyAnswer, "/v1/reassignments/verify", body)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        body = {"topics": list(topics), "brokers": list(brokers), "rack_aware": rack_aware}
        return self._sender.send(GeneratedPlans, "/v1/reassignments/generate", body).plans()
