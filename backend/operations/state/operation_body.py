"""An operation as the body of a journal entry, and back.

The fields are those of `Operation`, so that a new one is in the journal too. Strict on the way
back: what is missing, unknown or of another type makes the whole entry unreadable. An operation
that is half understood must not be acted upon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    details_of_0_1,
)
from kshunt.backend.domain.untrusted.json_codec import (
    Id,
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

_TOLD: Final = frozenset(
    {"outcome_is_progress", "actions", "waiting", "claim", "notes", "forecasts"}
)
"""What a backend finds out or keeps elsewhere, and adds when it reports an operation."""
_KEPT: Final = frozenset(one.name for one in fields(Operation)) - _TOLD
_OF_0_1: Final = frozenset(
    {
        *("id", "kind", "state", "started_ms", "ended_ms", "summary", "partitions", "outcome"),
        *("throttle_bytes_per_s", "auto_remove_throttle", "details", "who", "reason", "work"),
    }
)
"""What every entry has."""
_LATER: Final = tuple(one for one in fields(Operation) if one.name in _KEPT - _OF_0_1)
"""Fields of later versions. An entry lacks those that have their default, so that a backend of an
earlier version reads it too."""


class _Beside(Struct, frozen=True):
    """What an entry has in another form than `Operation`, or in addition to it."""

    partitions: list[tuple[str, Id]]
    details: dict[str, Any]
    work: WorkRecord | None
    shrink: dict[str, Any] | UnsetType = UNSET
    """Only of a shrink: a backend that does not know of shrinks must not act upon it."""


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
    outcome = "" if operation.outcome_is_progress else operation.outcome
    written = to_document(replace(operation, partitions=(), outcome=outcome))
    plain = {one.name for one in _LATER if getattr(operation, one.name) == one.default}
    return {
        **{name: one for name, one in written.items() if name in _KEPT - plain},
        "partitions": partitions,
        "work": None if work is None else reassigning.document(work),
        **({} if shrink is None else {"shrink": dict(shrinking.document(shrink))}),
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
    try:
        return _read(body)
    except (*MALFORMED, BadInput) as error:
        raise UnreadableWork(f"The stored operation cannot be read: {error}.") from None


def _read(body: Mapping[str, Any]) -> Recorded:
    if not _OF_0_1 <= body.keys() <= _KEPT | {"work", "shrink"}:
        raise ValueError("a field is missing or unknown")
    kept = {name: one for name, one in body.items() if name in _KEPT}
    plain = from_document(Operation, {**kept, "partitions": (), "details": {}})
    found = from_document(_Beside, body)
    if (found.shrink is UNSET) == (plain.kind is OperationKind.SHRINK):
        raise ValueError("it has a shrink but its kind does not, or the other way round")
    work = None if found.work is None else found.work.work()
    partitions = tuple(TopicPartition(*one) for one in found.partitions)
    operation = replace(
        plain,
        partitions=partitions if work is None else tuple(work.moves),
        details=read_exactly(OperationDetails, details_of_0_1(found.details)),
    )
    shrink = None if found.shrink is UNSET else shrinking.read_shrink(found.shrink)
    return Recorded(operation, work, shrink)
