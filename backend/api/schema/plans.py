"""Plans before they start, and rehearsals, as JSON; `kshunt.backend.api.models.plans` describes
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from kshunt.backend.api.schema.base import (
    Json,
    partition_json,
    plan_json,
    read_partition,
    read_plan,
)
from kshunt.backend.domain.planning.impact import BrokerImpact, Impact
from kshunt.backend.domain.planning.proposal import Cost, Measure, PlanNote, Proposal
from kshunt.backend.domain.planning.rehearsal import Deadline, IsrEvent, Rehearsal, Timeline
from kshunt.backend.domain.planning.requests import (
    PlanAnswer,
    PlanRequest,
    RehearsalAnswer,
    RehearsalRequest,
)
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan

POINTS: Final = 160
"""Of a timeline, at most: as many as a wide terminal can show."""

_COLUMNS: Final[Mapping[str, type]] = {
    "at_s": np.float64,
    "remaining_bytes": np.float64,
    "received_bytes_per_s": np.float64,
    "sent_bytes_per_s": np.float64,
    "disk_bytes": np.float64,
    "out_of_sync": np.int64,
    "under_min_isr": np.int64,
}
"""A timeline's columns."""

_PARTITIONS: Final = ("fewer_racks", "under_min_isr", "on_the_edge")


# Questions


def plan_request_json(request: PlanRequest) -> Json:
    """What the body of a question to a planner holds."""
    found = asdict(request)
    found["factors"] = [
        {"topics": pattern, "replication_factor": factor}
        for pattern, factor in request.factors.items()
    ]
    return found


def rehearsal_request_json(request: RehearsalRequest) -> Json:
    """What the body of a question for a rehearsal holds."""
    return {
        "plan": plan_json(ReassignmentPlan(request.targets)),
        "throttles_bytes_per_s": list(request.throttles_bytes_per_s),
        "deadline_s": request.deadline_s,
        "seed": request.seed,
    }


# Plans


def plan_answer_json(answer: PlanAnswer) -> Json:
    """A proposal with its plan and the one that leads back."""
    proposal = answer.proposal
    return {
        "cluster_id": answer.cluster_id,
        "taken_ms": answer.taken_ms,
        "goal": proposal.goal,
        "plan": plan_json(proposal.plan),
        "rollback": plan_json(proposal.rollback),
        "cost": asdict(proposal.cost),
        "measure": asdict(proposal.measure),
        "notes": [_note_json(note) for note in proposal.notes],
        "impact": impact_json(answer.impact),
    }


def read_plan_answer(document: Mapping[str, Any]) -> PlanAnswer:
    """The opposite of `plan_answer_json`."""
    plan, rollback = read_plan(document["plan"]), read_plan(document["rollback"])
    proposal = Proposal(
        document["goal"],
        before=rollback.replicas,
        targets=plan.replicas,
        cost=Cost(**document["cost"]),
        measure=Measure(**document["measure"]),
        notes=tuple(map(_read_note, document["notes"])),
        log_dirs=plan.log_dirs,
        log_dirs_before=rollback.log_dirs,
    )
    return PlanAnswer(
        proposal, read_impact(document["impact"]), document["cluster_id"], document["taken_ms"]
    )


def _note_json(note: PlanNote) -> Json:
    partition = None if note.partition is None else partition_json(note.partition)
    return {
        "why": note.why,
        "remedy": note.remedy,
        "partition": partition,
        "broker": note.broker,
    }


def _read_note(document: Mapping[str, Any]) -> PlanNote:
    partition = document["partition"]
    return PlanNote(
        document["why"],
        document["remedy"],
        None if partition is None else read_partition(partition),
        document["broker"],
    )


def impact_json(impact: Impact) -> Json:
    """What a plan does, with a row for each broker."""
    found = asdict(impact)
    for name in _PARTITIONS:
        found[name] = [partition_json(each) for each in getattr(impact, name)]
    return found


def read_impact(document: Mapping[str, Any]) -> Impact:
    """The opposite of `impact_json`."""
    named = {name: tuple(map(read_partition, document[name])) for name in _PARTITIONS}
    brokers = tuple(BrokerImpact(**row) for row in document["brokers"])
    phases = tuple(document["phases"])
    return Impact(**{**document, **named, "brokers": brokers, "phases": phases})


# Rehearsals


def rehearsal_answer_json(answer: RehearsalAnswer) -> Json:
    """Every rehearsal, and what the deadline takes."""
    return {
        "cluster_id": answer.cluster_id,
        "taken_ms": answer.taken_ms,
        "rehearsals": [rehearsal_json(each) for each in answer.rehearsals],
        "deadline": None if answer.deadline is None else _deadline_json(answer.deadline),
        "impact": impact_json(answer.impact),
    }


def read_rehearsal_answer(document: Mapping[str, Any]) -> RehearsalAnswer:
    """The opposite of `rehearsal_answer_json`, its timelines as thin as they came."""
    deadline = document["deadline"]
    return RehearsalAnswer(
        tuple(map(read_rehearsal, document["rehearsals"])),
        None if deadline is None else _read_deadline(deadline),
        read_impact(document["impact"]),
        document["cluster_id"],
        document["taken_ms"],
    )


def rehearsal_json(rehearsal: Rehearsal) -> Json:
    """One rehearsal; its timeline has `POINTS` points at most."""
    line = rehearsal.timeline.thinned(POINTS)
    return {
        "throttle_bytes_per_s": rehearsal.throttle_bytes_per_s,
        "brokers": list(rehearsal.brokers),
        "timeline": {name: getattr(line, name).round(3).tolist() for name in _COLUMNS},
        "done": [
            {**partition_json(partition), "at_s": at_s}
            for partition, at_s in rehearsal.done_s.items()
        ],
        "finish_s": rehearsal.finish_s,
        "why": rehearsal.why,
        "isr_events": list(map(_event_json, rehearsal.isr_events)),
        "notes": list(rehearsal.notes),
    }


def read_rehearsal(document: Mapping[str, Any]) -> Rehearsal:
    """The opposite of `rehearsal_json`."""
    columns: dict[str, Any] = {
        name: np.array(document["timeline"][name], dtype) for name, dtype in _COLUMNS.items()
    }
    return Rehearsal(
        document["throttle_bytes_per_s"],
        tuple(document["brokers"]),
        Timeline(**columns),
        {read_partition(entry): entry["at_s"] for entry in document["done"]},
        document["finish_s"],
        document["why"],
        tuple(map(_read_event, document["isr_events"])),
        tuple(document["notes"]),
    )


def _event_json(event: IsrEvent) -> Json:
    return {
        **partition_json(event.partition),
        "at_s": event.at_s,
        "broker": event.broker,
        "left": event.left,
    }


def _read_event(entry: Mapping[str, Any]) -> IsrEvent:
    return IsrEvent(entry["at_s"], read_partition(entry), entry["broker"], entry["left"])


def _deadline_json(deadline: Deadline) -> Json:
    return {
        "deadline_s": deadline.deadline_s,
        "throttle_bytes_per_s": deadline.throttle_bytes_per_s,
        "rehearsal": rehearsal_json(deadline.rehearsal),
        "needs": [
            {"broker": broker, "received_bytes_per_s": received, "sent_bytes_per_s": sent}
            for broker, (received, sent) in sorted(deadline.needs.items())
        ],
    }


def _read_deadline(document: Mapping[str, Any]) -> Deadline:
    needs = {
        entry["broker"]: (entry["received_bytes_per_s"], entry["sent_bytes_per_s"])
        for entry in document["needs"]
    }
    return Deadline(
        document["deadline_s"],
        document["throttle_bytes_per_s"],
        read_rehearsal(document["rehearsal"]),
        needs,
    )
