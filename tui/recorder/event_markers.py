"""Places to jump to: what changed and what went wrong, told from one scene to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from kshunt.tui.facts.cockpit.marks import (
    CHANGE,
    INCIDENT,
    Kind,
    Mark,
    MarkerCounts,
    Sign,
    snapshot_marks,
)
from kshunt.tui.feed.messages import (
    ActionTaken,
    AlertArrived,
    AnswerArrived,
    Connected,
    Disconnected,
    OperationsArrived,
    SnapshotArrived,
)
from kshunt.tui.feed.polled_facts import DRIFT
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder.json_values import UnreadableRecordedValue

if TYPE_CHECKING:
    from textual.message import Message

    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.throttles.owners import ShownDrift

ACTED: Final = ("sent", "answered", "refused")
"""Stages of an action that are worth a jump; a preview is not."""


def marks(before: Scene, message: Message, was: MarkerCounts, now: MarkerCounts) -> Iterator[Mark]:
    """What is worth a jump when `message` comes; `now` are the counts of its snapshot."""
    match message:
        case SnapshotArrived():
            yield from snapshot_marks(before.snapshot, message.snapshot, was, now)
        case OperationsArrived():
            yield from _of_operations(before.operations, message.operations)
        case Connected():
            if before.lost:
                yield Mark(CHANGE, "The backend answers again.")
        case Disconnected():
            if not before.lost:
                yield Mark(INCIDENT, f"Connection lost: {message.reason}")
        case AlertArrived():
            yield Mark(INCIDENT, message.text)
        case AnswerArrived():
            if message.about == DRIFT.name:
                yield from _of_drift(before.answer(DRIFT), message.answer)
        case ActionTaken():
            if message.stage in ACTED:
                yield Mark(CHANGE, action_words(message))
        case _:
            return


def action_words(action: ActionTaken) -> str:
    """Who did what, in one line."""
    by = f" by {action.who}" if action.who else ""
    why = f" ({action.reason})" if action.reason else ""
    return f"{action.stage.capitalize()}{by}: {action.text}{why}"


def _of_operations(before: tuple[Operation, ...], after: tuple[Operation, ...]) -> Iterator[Mark]:
    known = {operation.id: operation for operation in before}
    for operation in reversed(after):
        old = known.get(operation.id)
        if old is not None and old.state is operation.state:
            continue
        by = f" by {operation.who}" if operation.who and old is None else ""
        how = f": {operation.outcome}" if operation.outcome else ""
        text = f"Operation {operation.id}{by} is {operation.state.words}, {operation.summary}{how}"
        kind: Kind = INCIDENT if operation.state.went_wrong else CHANGE
        yield Mark(kind, text, _sign(operation, is_new=old is None))


def _sign(operation: Operation, *, is_new: bool) -> Sign:
    """What the time bar shows of an operation that is new, or has come to another state."""
    from kshunt.backend.domain.operations.operation import OperationKind

    throttles = (OperationKind.THROTTLED_RATES, OperationKind.THROTTLED_REPLICAS)
    if is_new:
        return "throttle" if operation.kind in throttles else "start"
    return "end" if operation.state.ended and operation.kind not in throttles else ""


def _of_drift(before: Sequence[ShownDrift], after: Sequence[ShownDrift]) -> Iterator[Mark]:
    """Drift that is new."""
    from kshunt.tui.facts.drift_words import drift_words

    known = {one.id for one in before}
    for one in after:
        if one.id not in known:
            yield Mark(INCIDENT, f"Drift: {drift_words(one)}", "throttle")


def marker_json(mark: Mark) -> dict[str, str]:
    """A mark as its record has it."""
    signed = {"sign": mark.sign} if mark.sign else {}
    return {"kind": mark.kind, "text": mark.text, **signed}


def read_marker(document: Mapping[str, Any]) -> Mark:
    """The opposite of `marker_json`.

    Raises:
        UnreadableRecordedValue: the document is not one of a mark.
    """
    try:
        kind: Kind = "incident" if document["kind"] == INCIDENT else "change"
        sign = document.get("sign", "")
        # Recordings of earlier versions have none; those of later ones may have others.
        return Mark(kind, str(document["text"]), sign if sign in get_args(Sign) else "")
    except (KeyError, TypeError) as error:
        raise UnreadableRecordedValue(f"a mark cannot be read: {error!r}") from None
