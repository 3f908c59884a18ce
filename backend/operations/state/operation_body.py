"""An operation as the body of a journal entry, and back.

Strict on the way back: what is missing, unknown or of another type makes the whole entry
unreadable. An operation that is half understood must not be acted upon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
    details_of_0_1,
)
from kshunt.backend.domain.untrusted.json_codec import (
    Id,
    TimeMs,
    Whole,
    from_document,
    read_exactly,
    to_document,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.state import reassignment_work as reassigning
from kshunt.backend.operations.state import shrink_work as shrinking
from kshunt.backend.operations.state.reassignment_work import (
    MALFORMED,
    ReassignmentWork,
    UnreadableWork,
    WorkRecord,
)
from kshunt.backend.operations.state.shrink_work import ShrinkWork


class _OperationDocument(Struct, forbid_unknown_fields=True, frozen=True):
    """An entry of the journal about an operation."""

    id: str
    kind: OperationKind
    state: OperationState
    started_ms: TimeMs
    ended_ms: TimeMs | None
    summary: str
    partitions: list[tuple[str, Id]]
    throttle_bytes_per_s: Whole | None
    auto_remove_throttle: bool
    outcome: str
    details: dict[str, Any]
    who: str
    reason: str
    work: WorkRecord | None
    shrink: dict[str, Any] | UnsetType = UNSET
    """Only of a shrink: who does not know of shrinks must not act upon it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an entry of the journal says of one operation."""

    operation: Operation
    work: ReassignmentWork | None = None
    """Of a reassignment."""
    shrink: ShrinkWork | None = None
    """Of a shrink."""


def operation_body(
    operation: Operation, work: ReassignmentWork | None, shrink: ShrinkWork | None = None
) -> Mapping[str, Any]:
    """For an entry of the journal. The partitions of a reassignment are those of its work."""
    partitions = [] if work is not None else [(p.topic, p.partition) for p in operation.partitions]
    body = _OperationDocument(
        id=operation.id,
        kind=operation.kind,
        state=operation.state,
        started_ms=operation.started_ms,
        ended_ms=operation.ended_ms,
        summary=operation.summary,
        partitions=partitions,
        throttle_bytes_per_s=operation.throttle_bytes_per_s,
        auto_remove_throttle=operation.auto_remove_throttle,
        outcome="" if operation.outcome_is_progress else operation.outcome,
        details=to_document(operation.details),
        who=operation.who,
        reason=operation.reason,
        work=None,
        shrink=UNSET if shrink is None else dict(shrinking.document(shrink)),
    )
    return {**to_document(body), "work": None if work is None else reassigning.document(work)}


def read_operation(operation_id: str, body: Mapping[str, Any]) -> Recorded:
    """As `read_operation_body`, of the operation that the entry's key names.

    Raises:
        UnreadableWork: also, it has the id of another one.
    """
    found = read_operation_body(body)
    if found.operation.id != operation_id:
        raise UnreadableWork("The operation has the id of another one.")
    return found


def read_operation_body(body: Mapping[str, Any]) -> Recorded:
    """The opposite of `operation_body`.

    Raises:
        UnreadableWork: it is not what `operation_body` writes.
    """
    try:
        return _read(body)
    except (*MALFORMED, BadInput) as error:
        raise UnreadableWork(f"The operation cannot be understood: {error}.") from None


def _read(body: Mapping[str, Any]) -> Recorded:
    found = from_document(_OperationDocument, body)
    if (found.shrink is UNSET) == (found.kind is OperationKind.SHRINK):
        raise ValueError("it has a shrink but its kind does not, or the other way round")
    work = None if found.work is None else found.work.work()
    partitions = tuple(TopicPartition(*one) for one in found.partitions)
    operation = Operation(
        id=found.id,
        kind=found.kind,
        state=found.state,
        started_ms=found.started_ms,
        summary=found.summary,
        partitions=partitions if work is None else tuple(work.moves),
        throttle_bytes_per_s=found.throttle_bytes_per_s,
        auto_remove_throttle=found.auto_remove_throttle,
        ended_ms=found.ended_ms,
        outcome=found.outcome,
        details=read_exactly(OperationDetails, details_of_0_1(found.details)),
        who=found.who,
        reason=found.reason,
    )
    shrink = None if found.shrink is UNSET else shrinking.read_shrink(found.shrink)
    return Recorded(operation, work, shrink)
