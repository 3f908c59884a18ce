"""How a shrink stands, for an operator: its phases, what it waits for, and its groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.phases import (
    GroupShown,
    PhaseShown,
    ShrinkPhase,
    ShrinkProgress,
    phases_of,
)
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.operations.shrink.step import ShrinkMemory
from kshunt.backend.operations.state.shrink_work import ShrinkWork

_HALTED: Final[Mapping[OperationState, str]] = {
    OperationState.PAUSING: "the job ends after its current batch",
    OperationState.PAUSED: "paused; the copied records are kept",
    OperationState.CANCELLING: "the job is being stopped, then all of it is reverted",
}
"""What is said of one that somebody paused or cancelled."""
_COPYING = frozenset({ShrinkPhase.COPY, ShrinkPhase.COPY_REST, ShrinkPhase.COPY_BACK})


def shrink_progress(
    operation: Operation, work: ShrinkWork, live: ShrinkMemory | None
) -> ShrinkProgress:
    """How it stands; `live` is what the backend that acts knows in addition."""
    known = live if live is not None else ShrinkMemory()
    now = ShrinkPhase.CLEAN_UP if operation.state is OperationState.LIFTING else work.phase
    # A backend that does not act knows no more than the phase.
    words, needs = known.words or str(now), known.needs
    if operation.state.ended:
        words, needs = operation.outcome, ""
    elif operation.state is not OperationState.RUNNING:
        words, needs = (
            _HALTED.get(operation.state, known.words),
            needs if needs == "operator" else "",
        )
    elif work.needs_name:
        words, needs = cut_over_summary(work), "confirm"
    return ShrinkProgress(
        topic=work.topic,
        current=work.current,
        wanted=work.request.total_count,
        cut_over=work.request.cut_over,
        copy=work.copy,
        phase=now,
        phases=tuple(_shown(operation, work, known, phase) for phase in _phases(work)),
        past_no_return=work.past_no_return,
        needs=needs,
        words=words,
        groups=_groups(work, known),
        records=None if work.verified is None else work.verified.records,
        verified_ms=None if work.verified is None else work.verified.at_ms,
        halted=operation.state in _HALTED,
    )


def cut_over_summary(work: ShrinkWork) -> str:
    """What the operator who types the topic's name agrees to."""
    if not work.differs:
        return f"source and copy are equal; type the name {work.topic} to continue"
    return (
        f"{work.topic} differs from the copy; did producers already write to it? {work.differs}. "
        f"Every record is in {work.copy}. To compare again, pause and resume. To continue as it "
        f"is and keep the copy too, type the name {work.topic}"
    )


def _phases(work: ShrinkWork) -> tuple[ShrinkPhase, ...]:
    return phases_of(work.request.cut_over)


def _shown(
    operation: Operation, work: ShrinkWork, live: ShrinkMemory, phase: ShrinkPhase
) -> PhaseShown:
    phases = _phases(work)
    here, there = phases.index(work.phase), phases.index(phase)
    if work.rolled_back:
        return _of_rolled_back(operation, work, live, phase)
    if operation.state is OperationState.DONE or there < here:
        return PhaseShown(phase, "done", _came(work, phase))
    if there > here:
        return PhaseShown(phase, "ahead")
    return _under_way(work, live, phase)


def _of_rolled_back(
    operation: Operation, work: ShrinkWork, live: ShrinkMemory, phase: ShrinkPhase
) -> PhaseShown:
    """It was cancelled, or failed: the phase in which it was, and the clean-up."""
    phases = _phases(work)
    if phase is ShrinkPhase.CLEAN_UP:
        if operation.state.ended:
            return PhaseShown(phase, "done")
        return PhaseShown(phase, "now", live.words)
    if phase is work.phase:
        return PhaseShown(phase, "failed", work.failed or "cancelled")
    before = phases.index(phase) < phases.index(work.phase)
    return PhaseShown(phase, "done" if before else "ahead", _came(work, phase) if before else "")


def _came(work: ShrinkWork, phase: ShrinkPhase) -> str:
    """What came of a phase that is over."""
    match phase:
        case ShrinkPhase.COPY:
            return f"into {work.copy}"
        case ShrinkPhase.VERIFY | ShrinkPhase.VERIFY_REST if work.verified is not None:
            return f"equal: {many(work.verified.records, 'record')}"
        case ShrinkPhase.CONFIRM:
            return f"by {work.confirmed}"
        case ShrinkPhase.VERIFY_BACK if work.verified_back is not None:
            if work.accepted:
                return f"accepted: {work.differs}"
            return f"equal: {many(work.verified_back.records, 'record')}"
        case ShrinkPhase.TRANSLATE:
            return many(sum(place.done for place in work.groups.values()), "group")
    return ""


def _under_way(work: ShrinkWork, live: ShrinkMemory, phase: ShrinkPhase) -> PhaseShown:
    if phase in _COPYING:
        return _copying(live, phase)
    if phase is ShrinkPhase.QUIESCE and live.quiet_ms is not None:
        delay_ms, quiet_ms = work.request.delay_ms, min(live.quiet_ms, work.request.delay_ms)
        left_ms = delay_ms - quiet_ms
        eta = (left_ms, left_ms)
        return PhaseShown(phase, "now", live.words, quiet_ms, delay_ms, "ms", eta)
    if phase is ShrinkPhase.TRANSLATE and work.groups:
        done = sum(place.done for place in work.groups.values())
        return PhaseShown(phase, "now", live.words, done, len(work.groups), "groups")
    return PhaseShown(phase, "now", live.words)


def _copying(live: ShrinkMemory, phase: ShrinkPhase) -> PhaseShown:
    status = live.status
    done, total, rate = status.records_done, status.records_total, status.records_per_s
    if done is None or total is None:
        return PhaseShown(phase, "now", live.words)
    eta = None
    if rate:
        left_ms = (total - done) / rate * 1000
        eta = (round(left_ms * 0.8), round(left_ms * 1.4))
    return PhaseShown(phase, "now", live.words, done, total, "records", eta)


def _groups(work: ShrinkWork, live: ShrinkMemory) -> tuple[GroupShown, ...]:
    if work.groups:
        return tuple(
            GroupShown(name, live.members.get(name, 0), place.read_twice, place.done)
            for name, place in sorted(work.groups.items())
        )
    return tuple(
        GroupShown(name, count, live.read_twice.get(name), committed=False)
        for name, count in sorted(live.members.items())
    )
