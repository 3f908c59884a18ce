"""Operations as JSON, with what people say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json, partition_json, read_partition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.operations.team import Claim, Note


def operation_json(operation: Operation) -> Json:
    """An operation, whole."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "state": operation.state.value,
        "started_ms": operation.started_ms,
        "ended_ms": operation.ended_ms,
        "summary": operation.summary,
        "partitions": [partition_json(partition) for partition in operation.partitions],
        "throttle_bytes_per_s": operation.throttle_bytes_per_s,
        "auto_remove_throttle": operation.auto_remove_throttle,
        "outcome": operation.outcome,
        "details": dict(operation.details),
        "who": operation.who,
        "reason": operation.reason,
        "actions": list(operation.actions),
        "waiting": operation.waiting,
        "claim": claim_json(operation.claim),
        "notes": list(map(note_json, operation.notes)),
    }


def read_operation(document: Mapping[str, Any]) -> Operation:
    """The opposite of `operation_json`."""
    return Operation(
        id=document["id"],
        kind=OperationKind(document["kind"]),
        state=OperationState(document["state"]),
        started_ms=document["started_ms"],
        ended_ms=document["ended_ms"],
        summary=document["summary"],
        partitions=tuple(read_partition(entry) for entry in document["partitions"]),
        throttle_bytes_per_s=document["throttle_bytes_per_s"],
        auto_remove_throttle=document["auto_remove_throttle"],
        outcome=document["outcome"],
        details=document["details"],
        who=document["who"],
        reason=document["reason"],
        actions=tuple(document["actions"]),
        waiting=document["waiting"],
        # What was recorded by a dashboard of an earlier version has neither.
        claim=read_claim(document.get("claim")),
        notes=tuple(map(read_note, document.get("notes", ()))),
    )


def claim_json(claim: Claim | None) -> Json | None:
    """Who steers an operation."""
    if claim is None:
        return None
    return {"who": claim.who, "since_ms": claim.since_ms, "reason": claim.reason}


def read_claim(document: Mapping[str, Any] | None) -> Claim | None:
    """The opposite of `claim_json`."""
    if document is None:
        return None
    return Claim(document["who"], document["since_ms"], document["reason"])


def note_json(note: Note) -> Json:
    """One note."""
    return {"who": note.who, "at_ms": note.at_ms, "text": note.text}


def read_note(document: Mapping[str, Any]) -> Note:
    """The opposite of `note_json`."""
    return Note(document["who"], document["at_ms"], document["text"])
