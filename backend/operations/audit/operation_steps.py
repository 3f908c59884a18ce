"""Which step of an operation is a line of the audit, and what that line says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched
from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.configs import brokers_of
from kshunt.backend.operations.ownership.ownership import ListCellId, Ownership, RateCellId
from kshunt.backend.operations.ownership.setting_words import own_words, setting_name
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork

_EVENTS: Final[Mapping[OperationState, AuditEvent]] = {
    OperationState.RUNNING: AuditEvent.STARTED,
    OperationState.PAUSING: AuditEvent.PAUSED,
    OperationState.RESUMING: AuditEvent.RESUMED,
    OperationState.CANCELLING: AuditEvent.CANCELLED,
    OperationState.LIFTING: AuditEvent.LIFTED,
}
"""The line of an operation that has come into a state."""
_PHASE_LINES: Final[Mapping[ShrinkPhase, str]] = {
    ShrinkPhase.DELETE: "verified; kshunt is deleting the source topic: the point of no return",
    ShrinkPhase.COPY_BACK: "the topic was created again; its records are being copied back",
    ShrinkPhase.TRANSLATE: "the smaller topic is complete; consumer groups get their positions",
}
"""The line of a shrink that has come into a phase."""


def line_of(
    before: Operation | None,
    after: Operation,
    work: ReassignmentWork | None,
    owned: tuple[Ownership, Ownership],
    backend: str,
    throttles: tuple[str, ...] | None = None,
) -> AuditEntry | None:
    """The line of one step that a backend takes, without its time; None where it is none.

    Args:
        before: The operation until then. None for a new one.
        work: What is known of its moves.
        owned: Whose the throttles are, before and after.
        backend: Its id.
        throttles: Each as read, in words. None: `owned` decides.
    """
    event = _event(before, after)
    if event is None:
        return None
    return AuditEntry(
        time_ms=0,
        number=0,
        event=event,
        operation_id=after.id,
        kind=after.kind.value,
        who=after.who,
        reason=after.reason if before is None else "",
        touched=_touched(after, work, owned, throttles),
        outcome=after.summary if before is None else _outcome(event, after),
        backend=backend,
    )


def step_line(
    before: ShrinkWork | None, after: ShrinkWork | None, operation: Operation, backend: str
) -> AuditEntry | None:
    """The line of a shrink that came into a phase that changes the cluster for good, or to which
    somebody agreed; None where it is none."""
    if before is None or after is None or (words := _agreed(before, after)) is None:
        return None
    return AuditEntry(
        time_ms=0,
        number=0,
        event=AuditEvent.CHANGED,
        operation_id=operation.id,
        kind=operation.kind.value,
        who=operation.who,
        touched=Touched.of(topics=(after.topic,)),
        outcome=words,
        backend=backend,
    )


def changed_line(
    after: Operation, owned: tuple[Ownership, Ownership], backend: str, asked: Requester
) -> AuditEntry:
    """The line of a running operation that somebody gave another rate or another deadline."""
    rate = exact_rate_text(after.throttle_bytes_per_s)
    return AuditEntry(
        time_ms=0,
        number=0,
        event=AuditEvent.CHANGED,
        operation_id=after.id,
        kind=after.kind.value,
        who=asked.who,
        reason=asked.reason,
        touched=Touched.of(partitions=after.partitions, throttles=throttles_changed(*owned)),
        outcome=f"its plan was started again: throttle {rate}",
        backend=backend,
    )


def _agreed(before: ShrinkWork, after: ShrinkWork) -> str | None:
    if after.accepted and not before.accepted:
        return f"the difference is accepted by {after.confirmed}"
    if after.confirmed != before.confirmed:
        return f"the topic's name was typed by {after.confirmed}"
    if after.phase is not before.phase and after.phase in _PHASE_LINES:
        return _PHASE_LINES[after.phase]
    return None


def _event(before: Operation | None, after: Operation) -> AuditEvent | None:
    if before is None:
        return AuditEvent.REQUESTED
    if before.state is after.state:
        return None
    if after.kind is OperationKind.SHRINK and after.state is OperationState.LIFTING:
        # kshunt removes no throttle here.
        return None
    if after.state is OperationState.FAILED:
        return AuditEvent.REFUSED if before.state is OperationState.STARTING else AuditEvent.ENDED
    if after.state.ended:
        return AuditEvent.ENDED
    if (before.state, after.state) == (OperationState.RESUMING, OperationState.RUNNING):
        return None
    return _EVENTS.get(after.state)


def _outcome(event: AuditEvent, after: Operation) -> str:
    """What became of it; an end begins with the state in which it ended."""
    if event not in (AuditEvent.ENDED, AuditEvent.REFUSED) or not after.state.ended:
        return after.outcome
    state = after.state.words
    if not after.outcome or after.outcome == state or after.outcome.startswith(f"{state}: "):
        return after.outcome or state
    return f"{state}: {after.outcome}"


def _touched(
    after: Operation,
    work: ReassignmentWork | None,
    owned: tuple[Ownership, Ownership],
    throttles: tuple[str, ...] | None,
) -> Touched:
    partitions = after.partitions if work is None else tuple(work.moves)
    brokers = () if work is None else brokers_of(work.moves.values())
    words = throttles_changed(*owned) if throttles is None else throttles
    return Touched.of(brokers=brokers, partitions=partitions, throttles=words)


def throttles_changed(before: Ownership, after: Ownership) -> tuple[str, ...]:
    """What a decision makes of each throttle, in words: `broker 3 leader rate: none → 50 MB/s`."""
    words = []
    for i in sorted(before.rates.keys() | after.rates.keys()):
        old, new = _rate(before, after, i), _rate(after, before, i)
        if old != new:
            words.append(f"{setting_name(*i)}: {old} → {new}")
    for j in sorted(before.lists.keys() | after.lists.keys()):
        was, becomes = _listed(before, j), _listed(after, j)
        if was != becomes:
            words.append(f"{setting_name(*j)}: {was} → {becomes} replicas of ours")
    return tuple(words)


def _rate(ownership: Ownership, other: Ownership, cell_id: RateCellId) -> str:
    """What should be set by one of two, where the other may be the only one that knows of it."""
    cell = ownership.rates.get(cell_id) or other.rates[cell_id]
    if cell_id in ownership.rates and cell.rates_bytes_per_s:
        return exact_rate_text(cell.wanted_bytes_per_s)
    return own_words(cell.prior)


def _listed(ownership: Ownership, cell_id: ListCellId) -> int:
    cell = ownership.lists.get(cell_id)
    return 0 if cell is None else len(cell.needed)
