"""What each step of an operation says of its forecasts. Pure."""

from __future__ import annotations

from kshunt.backend.domain.forecast.scoring.milestones import Kept, completed, not_completed, paused
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

State = OperationState


def turned_out(kept: Kept, state: State, work: ReassignmentWork | None, at_ms: int) -> Kept:
    """The forecasts of an operation that comes into a state.

    They were made of the whole plan, so none counts where a part of it was cancelled. A copy has
    arrived before the throttle is removed, so the way ends with LIFTING.
    """
    cut = work is not None and bool(work.cancelled or work.failed)
    if cut or state is State.CANCELLING or (state.ended and state is not State.DONE):
        return not_completed(kept)
    if state in (State.LIFTING, State.DONE):
        return completed(kept, at_ms)
    if state in (State.PAUSING, State.PAUSED):
        return paused(kept)
    return kept
