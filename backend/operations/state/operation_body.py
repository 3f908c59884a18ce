"""An operation as the body of a journal entry, and back.

Strict on the way back: what is missing, unknown or of another type makes the whole entry
unreadable. An operation that is half understood must not be acted upon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.operations.state import shrink_work as shrinking
from kshunt.backend.operations.state.reassignment_work import (
    ID_MAX,
    MALFORMED,
    TIME_MS_MAX,
    ReassignmentWork,
    UnreadableWork,
    document,
    read_work,
    whole,
)
from kshunt.backend.operations.state.shrink_work import ShrinkWork

_TEXTS: Final = ("id", "kind", "state", "summary", "outcome", "who", "reason")
_FIELDS: Final = frozenset(
    {
        *_TEXTS, "started_ms", "ended_ms", "partitions", "throttle_bytes_per_s",
        "auto_remove_throttle", "details", "work",
    }
)  # fmt: skip


_SHRINK: Final = "shrink"
"""A field that only a shrink's entry has: who does not know of shrinks must not act upon it."""


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
    partitions = [] if work is not None else [list(p) for p in operation.partitions]
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "state": operation.state.value,
        "started_ms": operation.started_ms,
        "ended_ms": operation.ended_ms,
        "summary": operation.summary,
        "partitions": partitions,
        "throttle_bytes_per_s": operation.throttle_bytes_per_s,
        "auto_remove_throttle": operation.auto_remove_throttle,
        "outcome": operation.outcome,
        "details": dict(operation.details),
        "who": operation.who,
        "reason": operation.reason,
        "work": None if work is None else document(work),
        **({} if shrink is None else {_SHRINK: shrinking.document(shrink)}),
    }


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
    expected = _FIELDS | {_SHRINK} if body.get("kind") == OperationKind.SHRINK else _FIELDS
    if set(body) != expected:
        odd = ", ".join(sorted(set(body) ^ expected))[:200]
        raise UnreadableWork(f"The operation has other fields than it must: {odd}.")
    try:
        return _read(body)
    except MALFORMED as error:
        raise UnreadableWork(f"The operation cannot be understood: {error}.") from None


def _read(body: Mapping[str, Any]) -> Recorded:
    for name in _TEXTS:
        _text(body[name])
    work = None if body["work"] is None else read_work(body["work"])
    partitions = tuple(
        TopicPartition(_text(topic), whole(number, ID_MAX)) for topic, number in body["partitions"]
    )
    rate, ended_ms = body["throttle_bytes_per_s"], body["ended_ms"]
    if type(body["auto_remove_throttle"]) is not bool or type(body["details"]) is not dict:
        raise TypeError("auto_remove_throttle or details has another type")
    operation = Operation(
        id=body["id"],
        kind=OperationKind(body["kind"]),
        state=OperationState(body["state"]),
        started_ms=whole(body["started_ms"], TIME_MS_MAX),
        summary=body["summary"],
        partitions=partitions if work is None else tuple(work.moves),
        throttle_bytes_per_s=None if rate is None else whole(rate),
        auto_remove_throttle=body["auto_remove_throttle"],
        ended_ms=None if ended_ms is None else whole(ended_ms, TIME_MS_MAX),
        outcome=body["outcome"],
        details=dict(body["details"]),
        who=body["who"],
        reason=body["reason"],
    )
    shrink = shrinking.read_shrink(body[_SHRINK]) if _SHRINK in body else None
    return Recorded(operation, work, shrink)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
