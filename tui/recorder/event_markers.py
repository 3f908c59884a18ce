"""Places to jump to: what changed and what went wrong, told from one scene to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kshunt.backend.domain.text.formatting import many
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
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.domain.throttles.owners import ShownDrift

Kind = Literal["change", "incident"]
CHANGE: Final = "change"
INCIDENT: Final = "incident"
ACTED: Final = ("sent", "answered", "refused")
"""Stages of an action that are worth a jump; a preview is not."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One of them."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class MarkerCounts:
    """Of a snapshot: what goes wrong when it is more than before."""

    moving: int = 0
    stuck: int = 0
    offline: int = 0
    leaderless: int = 0
    down: frozenset[int] = frozenset()


def counted(snapshot: Snapshot) -> MarkerCounts:
    """The counts of a snapshot; imports data libraries."""
    import numpy as np

    from kshunt.backend.domain.cluster.partition_modes import PartitionMode
    from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, stuck_rows

    rows = snapshot.replicas
    stays = rows.mode != PartitionMode.NONE
    return MarkerCounts(
        int(np.count_nonzero(rows.adding)),
        int(np.count_nonzero(stuck_rows(rows))),
        int(np.count_nonzero((rows.status == ReplicaStatus.OFFLINE) & stays)),
        int(np.count_nonzero((rows.leader < 0) & (rows.position == 0) & stays)),
        frozenset(id for id, status in snapshot.brokers.items() if status.stale),
    )


def marks(before: Scene, message: Message, was: MarkerCounts, now: MarkerCounts) -> Iterator[Mark]:
    """What is worth a jump when `message` comes; `now` are the counts of its snapshot."""
    match message:
        case SnapshotArrived():
            yield from _of_snapshot(before.snapshot, message.snapshot, was, now)
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


def _of_snapshot(
    before: Snapshot | None, after: Snapshot, was: MarkerCounts, now: MarkerCounts
) -> Iterator[Mark]:
    if before is not None and before.cluster_id != after.cluster_id:
        yield Mark(INCIDENT, f"This is another cluster: {after.cluster_id}.")
    for id in sorted(now.down - was.down):
        problem = after.brokers[id].problem
        yield Mark(INCIDENT, f"Broker {id} does not answer{f': {problem}' if problem else '.'}")
    for id in sorted(was.down - now.down):
        yield Mark(CHANGE, f"Broker {id} answers again.")
    yield from _risen("replica", "stuck", was.stuck, now.stuck)
    yield from _risen("replica", "offline", was.offline, now.offline)
    yield from _risen("partition", "without a leader", was.leaderless, now.leaderless)
    if bool(was.moving) != bool(now.moving):
        words = f"{many(now.moving, 'replica')} moving." if now.moving else "Nothing moves."
        yield Mark(CHANGE, words)


def _risen(noun: str, how: str, was: int, now: int) -> Iterator[Mark]:
    """More than before is an incident; none any more is worth a look."""
    if now > was:
        yield Mark(INCIDENT, f"{many(now, noun)} {how}" + (f" (were {was:,})." if was else "."))
    elif was and not now:
        yield Mark(CHANGE, f"No {noun} is {how} any more.")


def _of_operations(before: tuple[Operation, ...], after: tuple[Operation, ...]) -> Iterator[Mark]:
    known = {operation.id: operation for operation in before}
    for operation in reversed(after):
        old = known.get(operation.id)
        if old is not None and old.state is operation.state:
            continue
        by = f" by {operation.who}" if operation.who and old is None else ""
        how = f": {operation.outcome}" if operation.outcome else ""
        text = f"Operation {operation.id}{by} is {operation.state}, {operation.summary}{how}"
        yield Mark(INCIDENT if operation.state.went_wrong else CHANGE, text)


def _of_drift(before: Sequence[ShownDrift], after: Sequence[ShownDrift]) -> Iterator[Mark]:
    """Drift that is new."""
    from kshunt.tui.facts.drift_words import drift_words

    known = {one.id for one in before}
    for one in after:
        if one.id not in known:
            yield Mark(INCIDENT, f"Drift: {drift_words(one)}")


def marker_json(mark: Mark) -> dict[str, str]:
    """A mark as its record has it."""
    return {"kind": mark.kind, "text": mark.text}


def read_marker(document: Mapping[str, Any]) -> Mark:
    """The opposite of `marker_json`.

    Raises:
        UnreadableRecordedValue: the document is not one of a mark.
    """
    try:
        kind: Kind = "incident" if document["kind"] == INCIDENT else "change"
        return Mark(kind, str(document["text"]))
    except (KeyError, TypeError) as error:
        raise UnreadableRecordedValue(f"a mark cannot be read: {error!r}") from None
