"""Plans before they start, and rehearsals, as the API answers them.

Where a value of the domain has arrays, or keys that are no texts, a class here has its lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kshunt.backend.api.schema.plan_document import PlanDocument
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.impact import Impact
from kshunt.backend.domain.planning.proposal import Cost, Measure, PlanNote, Proposal
from kshunt.backend.domain.planning.rehearsal import (
    Deadline,
    IsrEvent,
    PlanForecast,
    Rehearsal,
    Timeline,
)
from kshunt.backend.domain.planning.requests import (
    PlanAnswer,
    PlanRequest,
    RehearsalAnswer,
    RehearsalRequest,
)
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.untrusted.json_codec import to_document

POINTS: Final = 160
"""Of a timeline, at most: the number that a wide terminal can show."""


# Questions


def plan_request_body(request: PlanRequest) -> dict[str, Any]:
    """The body of a question to a planner."""
    factors = [
        {"topics": pattern, "replication_factor": factor}
        for pattern, factor in request.factors.items()
    ]
    return {**to_document(request), "factors": factors}


def rehearsal_request_body(request: RehearsalRequest) -> dict[str, Any]:
    """The body of a question for a rehearsal."""
    return {
        "plan": to_document(PlanDocument.of(ReassignmentPlan(request.targets))),
        "throttles_bytes_per_s": list(request.throttles_bytes_per_s),
        "deadline_ms": request.deadline_ms,
        "quick": request.quick,
        "seed": request.seed,
    }


# Plans


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """A proposed plan, and its rollback."""

    cluster_id: str
    taken_ms: int
    """When the cluster was read; milliseconds since the epoch."""
    goal: str
    plan: PlanDocument
    rollback: PlanDocument
    cost: Cost
    measure: Measure
    notes: tuple[PlanNote, ...]
    impact: Impact

    @classmethod
    def of(cls, answer: PlanAnswer) -> PlanProposal:
        """As the API says it."""
        found = answer.proposal
        return cls(
            answer.cluster_id,
            answer.taken_ms,
            found.goal,
            PlanDocument.of(found.plan),
            PlanDocument.of(found.rollback),
            found.cost,
            found.measure,
            found.notes,
            answer.impact,
        )

    def answer(self) -> PlanAnswer:
        """The value that this is the answer of."""
        plan, rollback = self.plan.plan(), self.rollback.plan()
        proposal = Proposal(
            self.goal,
            before=rollback.replicas,
            targets=plan.replicas,
            cost=self.cost,
            measure=self.measure,
            notes=self.notes,
            log_dirs=plan.log_dirs,
            log_dirs_before=rollback.log_dirs,
        )
        return PlanAnswer(proposal, self.impact, self.cluster_id, self.taken_ms)


# Rehearsals


@dataclass(frozen=True, slots=True)
class TimelineLists:
    """The course of a rehearsal; a row a point in time, and in it a column a broker."""

    at_s: list[float]
    remaining_bytes: list[float]
    received_bytes_per_s: list[list[float]]
    sent_bytes_per_s: list[list[float]]
    disk_bytes: list[list[float]]
    out_of_sync: list[int]
    under_min_isr: list[int]

    @classmethod
    def of(cls, timeline: Timeline) -> TimelineLists:
        """A timeline, with `POINTS` points at most."""
        line = timeline.thinned(POINTS)
        return cls(**{name: getattr(line, name).round(3).tolist() for name in cls.__slots__})

    def timeline(self, brokers: int) -> Timeline:
        """The columns, of this many brokers.

        Raises:
            ValueError: they are not of one length.
        """
        shapes = dict.fromkeys(_BY_BROKER, (len(self.at_s), brokers))
        columns: dict[str, Any] = {
            name: np.array(
                getattr(self, name), np.int64 if name in _COUNTS else np.float64
            ).reshape(shapes.get(name, (len(self.at_s),)))
            for name in self.__slots__
        }
        return Timeline(**columns)


_BY_BROKER: Final = ("received_bytes_per_s", "sent_bytes_per_s", "disk_bytes")
_COUNTS: Final = ("out_of_sync", "under_min_isr")


@dataclass(frozen=True, slots=True)
class FinishedMove:
    """When a partition had moved."""

    topic: str
    partition: int
    at_s: float


@dataclass(frozen=True, slots=True)
class RehearsedMoves:
    """The course of the moves in a twin of the cluster."""

    throttle_bytes_per_s: int | None
    brokers: tuple[int, ...]
    timeline: TimelineLists
    done: tuple[FinishedMove, ...]
    finish_s: float | None
    """Null where it would never end, or not within 30 days; `why` says which, and why."""
    why: str
    isr_events: tuple[IsrEvent, ...]

    @classmethod
    def of(cls, rehearsal: Rehearsal) -> RehearsedMoves:
        """As the API says it; its timeline has `POINTS` points at most."""
        return cls(
            rehearsal.throttle_bytes_per_s,
            rehearsal.brokers,
            TimelineLists.of(rehearsal.timeline),
            tuple(
                FinishedMove(name.topic, name.partition, at_s)
                for name, at_s in rehearsal.done_s.items()
            ),
            rehearsal.finish_s,
            rehearsal.why,
            rehearsal.isr_events,
        )

    def rehearsal(self) -> Rehearsal:
        """The value, its timeline as thin as it came."""
        return Rehearsal(
            self.throttle_bytes_per_s,
            self.brokers,
            self.timeline.timeline(len(self.brokers)),
            {TopicPartition(one.topic, one.partition): one.at_s for one in self.done},
            self.finish_s,
            self.why,
            self.isr_events,
        )


@dataclass(frozen=True, slots=True)
class BrokerNeed:
    """The average rates of a broker until the deadline."""

    broker: int
    received_bytes_per_s: float
    sent_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class DeadlineNeeds:
    """The throttle that is needed to be done in time."""

    at_ms: int
    """The moment that was asked for; milliseconds since the epoch."""
    throttle_bytes_per_s: int | None
    """The lowest one that is enough; null where no throttle is."""
    certainty: float
    """The probability that the plan is done in time at this throttle; 0.9."""
    needs: tuple[BrokerNeed, ...]

    @classmethod
    def of(cls, deadline: Deadline) -> DeadlineNeeds:
        """As the API says it."""
        needs = tuple(BrokerNeed(one, *rates) for one, rates in sorted(deadline.needs.items()))
        return cls(deadline.at_ms, deadline.throttle_bytes_per_s, deadline.certainty, needs)

    def deadline(self) -> Deadline:
        """The value that this says."""
        needs = {one.broker: (one.received_bytes_per_s, one.sent_bytes_per_s) for one in self.needs}
        return Deadline(self.at_ms, self.throttle_bytes_per_s, self.certainty, needs)


@dataclass(frozen=True, slots=True)
class Rehearsals:
    """Every requested forecast and rehearsal."""

    cluster_id: str
    taken_ms: int
    forecasts: tuple[PlanForecast, ...]
    """By throttle, in the order of the request; that of the deadline comes last."""
    rehearsals: tuple[RehearsedMoves, ...]
    deadline: DeadlineNeeds | None
    impact: Impact
    notes: tuple[str, ...]
    """What is not known of the cluster, and what is assumed."""

    @classmethod
    def of(cls, answer: RehearsalAnswer) -> Rehearsals:
        """As the API says it."""
        return cls(
            answer.cluster_id,
            answer.taken_ms,
            answer.forecasts,
            tuple(map(RehearsedMoves.of, answer.rehearsals)),
            None if answer.deadline is None else DeadlineNeeds.of(answer.deadline),
            answer.impact,
            answer.notes,
        )

    def answer(self) -> RehearsalAnswer:
        """The value that this is the answer of."""
        return RehearsalAnswer(
            self.forecasts,
            tuple(one.rehearsal() for one in self.rehearsals),
            None if self.deadline is None else self.deadline.deadline(),
            self.impact,
            self.cluster_id,
            self.taken_ms,
            self.notes,
        )
