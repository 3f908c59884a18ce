"""An operation as the body of a journal entry, and back.

Strict on the way back: what is missing, unknown or of another type makes the whole entry
unreadable. An operation that is half understood must not be acted upon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from backend.domain.cluster import TopicPartition
from backend.domain.operation import Operation, OperationKind, OperationState
from backend.operations.shrink import work as shrinking
from backend.operations.shrink.work import ShrinkWork
from backend.operations.work import UnreadableWork, Work, document, read_work

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
    work: Work | None = None
    """Of a reassignment."""
    shrink: ShrinkWork | None = None
    """Of a shrink."""


def operation_body(
    operation: Operation, work: Work | None, shrink: ShrinkWork | None = None
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


def read_operation_body(body: Mapping[str, Any]) -> Recorded:
    """The opposite of `operation_body`.

    Raises:
        UnreadableWork: it is not what `operation_body` writes.
    """
    expected = _FIELDS | {_SHRINK} if body.get("kind") == OperationKind.SHRINK else _FIELDS
    if set(body) != expected:
        odd = ", ".join(sorted(set(body) ^ expected))
        raise UnreadableWork(f"The operation has other fields than it must: {odd}.")
    try:
        return _read(body)
    except (TypeError, ValueError, KeyError) as error:
        raise UnreadableWork(f"The operation cannot be understood: {error}.") from None


def _read(body: Mapping[str, Any]) -> Recorded:
    for name in _TEXTS:
        if not isinstance(body[name], str):
            raise TypeError(f"{name} is no text")
    work = None if body["work"] is None else read_work(body["work"])
    partitions = tuple(
        TopicPartition(str(topic), int(number)) for topic, number in body["partitions"]
    )
    operation = Operation(
        id=body["id"],
        kind=OperationKind(body["kind"]),
        state=OperationState(body["state"]),
        started_ms=int(body["started_ms"]),
        summary=body["summary"],
        partitions=partitions if work is None else tuple(work.moves),
        throttle_bytes_per_s=body["throttle_bytes_per_s"],
        auto_remove_throttle=bool(body["auto_remove_throttle"]),
        ended_ms=body["ended_ms"],
        outcome=body["outcome"],
        details=dict(body["details"]),
        who=body["who"],
        reason=body["reason"],
    )
    shrink = shrinking.read_shrink(body[_SHRINK]) if _SHRINK in body else None
    return Recorded(operation, work, shrink)
