"""The states of an operation, and every step between them.

Goals
    Whatever crashes, another backend can continue from the state in the journal. No step is
    taken that is not in `STEPS`, and from every state that is no end an end can be reached.
Constraints
    The journal holds a step's name, its new state and what its effect needs (prior values, the
    batch) *before* the effect. So a state says what was begun, not what holds: what holds is
    observed. An effect is written as a wish ("this list has this value"), never as a change ("add
    this to the list"), and so may be repeated.
Algorithm
    To take a step: check the precondition, write the step to the journal, do the effect, observe
    until it holds. A backend that takes over an operation repeats the effect of the step that the
    journal names last, and continues to observe. `submit` is the exception: a move that is
    submitted twice could bring back what somebody cancelled in between. There `lose_answer` comes
    first, and the cluster is asked.

KIP-179's recovery on controller failover is the model; pausing goes beyond it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_BRIEF: Final[Mapping[str, str]] = {
    "cancelled_elsewhere": "elsewhere",
    "partly_cancelled": "partly",
}


class OperationState(enum.StrEnum):
    """Where an operation stands."""

    QUEUED = "queued"
    """Accepted and in the journal; the cluster has nothing of it yet."""
    STARTING = "starting"
    """Its throttles are being written and its first moves submitted."""
    RUNNING = "running"
    """Moves are in flight or wait for their turn."""
    PAUSING = "pausing"
    """No move is started any more; the rates that hold its copies are being written."""
    PAUSED = "paused"
    """Its copies are held at the floor rate, and keep what they have."""
    RESUMING = "resuming"
    """The rates from before the pause are being put back."""
    CANCELLING = "cancelling"
    """Its moves are being returned to their original replicas."""
    UNKNOWN = "unknown"
    """An answer was lost: whether the moves were submitted is being found out."""
    LIFTING = "lifting"
    """The move is over and its throttle is being removed."""
    DONE = "done"
    """Every partition that the cluster took is where the plan wants it, or was deleted since."""
    CANCELLED = "cancelled"
    """An operator cancelled all of it, and nothing of it is where the plan wanted it."""
    PARTLY_CANCELLED = "partly_cancelled"
    """An operator cancelled it, or a part; some partitions are where the plan wanted them."""
    CANCELLED_ELSEWHERE = "cancelled_elsewhere"
    """Somebody else cancelled moves of it, without kshunt."""
    SUPERSEDED = "superseded"
    """Somebody else moved partitions of it elsewhere."""
    FAILED = "failed"

    @property
    def words(self) -> str:
        """For people: `partly cancelled`."""
        return self.value.replace("_", " ")

    @property
    def brief(self) -> str:
        """For people, in at most ten characters."""
        return _BRIEF.get(self.value, self.words)

    @property
    def went_wrong(self) -> bool:
        """True where it ended otherwise than anybody asked for here."""
        return self.value in ("failed", "cancelled_elsewhere", "superseded")

    @property
    def ended(self) -> bool:
        """True where nothing more will happen."""
        return not TRANSITIONS[self]


@dataclass(frozen=True, slots=True)
class OperationStep:
    """One legal move between two states, in words for the engine's reader and for the audit."""

    name: str
    """One word; several steps share one where they do the same from different states."""
    source: OperationState
    target: OperationState
    precondition: str
    """What must hold, by what the cluster says at that moment, before the step is taken."""
    effect: str
    """What is written, and where; "none" where only the journal changes."""
    observe: str
    """How it is seen that the effect took hold."""
    undo: str
    """What takes the effect back."""

    def __str__(self) -> str:
        return f"{self.name}: {self.source} → {self.target}"


_Q, _S, _R = OperationState.QUEUED, OperationState.STARTING, OperationState.RUNNING
_PG, _P, _RG = OperationState.PAUSING, OperationState.PAUSED, OperationState.RESUMING
_C, _U, _L = OperationState.CANCELLING, OperationState.UNKNOWN, OperationState.LIFTING
_D, _X, _F = OperationState.DONE, OperationState.CANCELLED, OperationState.FAILED
_PX, _XE = OperationState.PARTLY_CANCELLED, OperationState.CANCELLED_ELSEWHERE
_SU = OperationState.SUPERSEDED

_JOURNAL_ONLY: Final = "none"
_NOTHING_TO_UNDO: Final = "nothing: the cluster was not changed"
_UNDO_OPERATION: Final = "a new operation, from `undo_plan` of the recorded originals"


def _steps(
    name: str,
    sources: tuple[OperationState, ...],
    target: OperationState,
    precondition: str,
    effect: str,
    observe: str,
    undo: str,
) -> tuple[OperationStep, ...]:
    return tuple(
        OperationStep(name, source, target, precondition, effect, observe, undo)
        for source in sources
    )


_BEGINNING: Final = (
    *_steps(
        "start",
        (_Q,),
        _S,
        "this backend holds the journal; the plan passes its checks again; `next_moves` names moves"
        " to start; the prior value of every throttle to be written is in the journal",
        "the throttled replicas of the topics, then the rates of the brokers",
        "both are read back and are what was written; a broker that is down is skipped and named",
        "lift: the operation's share of each throttle is removed, and the former value is restored",
    ),
    *_steps(
        "hold",
        (_Q,),
        _P,
        "an operator asks for it; nothing of the operation is in the cluster",
        _JOURNAL_ONLY,
        "the journal acknowledged it",
        "release",
    ),
    *_steps(
        "release",
        (_P,),
        _Q,
        "no move of the operation was ever submitted, so nothing of it is in the cluster",
        _JOURNAL_ONLY,
        "the journal acknowledged it",
        "hold",
    ),
    *_steps(
        "withdraw",
        (_Q,),
        _X,
        "an operator cancels; nothing of the operation is in the cluster",
        _JOURNAL_ONLY,
        "the journal acknowledged it",
        _NOTHING_TO_UNDO,
    ),
    *_steps(
        "reject",
        (_Q,),
        _F,
        "the plan does not pass its checks any more: its topics or brokers do not exist",
        _JOURNAL_ONLY,
        "the journal acknowledged it",
        _NOTHING_TO_UNDO,
    ),
    *_steps(
        "submit",
        (_S,),
        _R,
        "the throttles were read back; `next_moves` names moves to start; they are in the journal",
        "AlterPartitionReassignments for the batch",
        "ListPartitionReassignments lists each partition with our target, or it is there already",
        "cancel",
    ),
    *_steps(
        "apply",
        (_S,),
        _D,
        "the change ends with its answer: an election, or an edit of throttles",
        "that one request",
        "the answer has a result for each item; what it changed is read back",
        "the reverse edit, from the values in the audit; an election has none",
    ),
    *_steps(
        "refuse",
        (_S,),
        _F,
        "the cluster rejected every item, and no throttle of the operation is left",
        _JOURNAL_ONLY,
        "the throttles were read back and have their former values",
        _NOTHING_TO_UNDO,
    ),
    *_steps(
        "roll_back",
        (_S,),
        _L,
        "no move was submitted or all were rejected, and throttles may have been written",
        "the operation's share of each throttle is removed, and the former value is restored",
        "the throttles are read back",
        "start it again, as a new operation",
    ),
)

_PAUSING: Final = (
    *_steps(
        "pause",
        (_R, _RG),
        _PG,
        "an operator asks for it; the rates that will be replaced were read and are in the journal",
        "no move is started; `pause_writes`: throttled replicas without our new copies, then the "
        "floor as the follower's rate of the brokers on which only they are throttled",
        "lists and rates are read back",
        "resume",
    ),
    *_steps(
        "paused",
        (_PG,),
        _P,
        "every list and rate of `pause_writes` was read back; copies that continue because"
        " their broker is shared are named in the outcome",
        _JOURNAL_ONLY,
        "the lag of the held copies shrinks no faster than the floor allows",
        "resume",
    ),
    *_steps(
        "resume",
        (_PG, _P),
        _RG,
        "an operator asks for it; at least one move of the operation was submitted",
        "`resume_writes`: the rates and lists from before the pause; values that somebody else "
        "changed in the meantime stay",
        "lists and rates are read back",
        "pause",
    ),
    *_steps(
        "resumed",
        (_RG,),
        _R,
        "every list and rate of `resume_writes` was read back",
        _JOURNAL_ONLY,
        "the lag of the copies shrinks again",
        "pause",
    ),
)

_UNCERTAIN: Final = (
    *_steps(
        "lose_answer",
        (_S, _R),
        _U,
        "moves were submitted, and no answer came",
        "none; nothing more is submitted",
        "the journal acknowledged it",
        "ask the cluster, then one of the three steps that follow from its answer",
    ),
    *_steps(
        "found_moving",
        (_U,),
        _R,
        "the cluster lists a submitted partition, or has one at its target",
        "none; submitted partitions that are in neither state return to the queue",
        "ListPartitionReassignments",
        "cancel",
    ),
    *_steps(
        "found_nothing",
        (_U,),
        _S,
        "the cluster answered, and no move of the operation is listed or at its target",
        "the throttles are written and read back once more, as in start",
        "lists and rates are read back",
        "lift",
    ),
)

_CANCELLING: Final = (
    *_steps(
        "cancel",
        (_S, _R, _PG, _P, _RG, _U),
        _C,
        "an operator asks for it; the partitions to return are in the journal",
        "a null target for each of the operation's partitions that moves to our target; the others"
        " leave the queue",
        "ListPartitionReassignments lists none of them",
        "submit the same plan again, as a new operation; the copied data is lost",
    ),
    *_steps(
        "cancel_refused",
        (_C,),
        _RG,
        "the cluster rejects the return of a partition, because none of its original replicas is "
        "in sync: only the end of the copy makes it safe again",
        "the rates from before a pause, so that the copy can end",
        "lists and rates are read back",
        "cancel, once an original replica is in sync",
    ),
)

_ENDING: Final = (
    *_steps(
        "lift",
        (_R, _PG, _P, _RG, _C, _U),
        _L,
        "no partition of the operation is listed as moving, and none waits in its queue",
        "the operation's share of each throttle is removed and the former value is restored, "
        "also where a pause set the floor; a throttle that was to stay is left",
        "the throttles are read back; repeated until they are right",
        _UNDO_OPERATION,
    ),
    *_steps(
        "finish",
        (_L,),
        _D,
        "no throttle of the operation is left; every partition that the cluster accepted is "
        "where the plan wants it, or was deleted",
        _JOURNAL_ONLY,
        "the outcome says how many partitions are where the plan wants them",
        _UNDO_OPERATION,
    ),
    *_steps(
        "cancelled",
        (_L,),
        _X,
        "no throttle of the operation is left, all of it was cancelled, and no partition is where"
        " the plan wanted it",
        _JOURNAL_ONLY,
        "the outcome says how many partitions went back",
        "submit the same plan again, as a new operation",
    ),
    *_steps(
        "give_up",
        (_L,),
        _F,
        "no throttle of it is left; the cluster accepted none of its moves, or its partitions "
        "were deleted, or an operator accepts that a lost broker keeps its share",
        _JOURNAL_ONLY,
        "the outcome says what is left, and where",
        _UNDO_OPERATION,
    ),
    *_steps(
        "partly_cancelled",
        (_L,),
        _PX,
        "no throttle of the operation is left; some of it was cancelled, and some partitions are"
        " where the plan wanted them",
        _JOURNAL_ONLY,
        "the outcome says how many are there, and how many went back",
        _UNDO_OPERATION,
    ),
    *_steps(
        "cancelled_elsewhere",
        (_L,),
        _XE,
        "no throttle of the operation is left; somebody else returned partitions of it to their"
        " original replicas, seen for two seconds",
        _JOURNAL_ONLY,
        "ListPartitionReassignments lists none of its partitions; the outcome counts them",
        "submit the same plan again, as a new operation",
    ),
    *_steps(
        "superseded",
        (_L,),
        _SU,
        "no throttle of the operation is left; somebody else moved partitions of it elsewhere,"
        " seen for two seconds",
        _JOURNAL_ONLY,
        "the outcome names the partitions and where they are",
        "submit the same plan again, as a new operation",
    ),
    *_steps(
        "vanished",
        (_R,),
        _F,
        "every topic of it was deleted while it ran, and it owned no throttle",
        _JOURNAL_ONLY,
        "the cluster describes none of its topics",
        "nothing: there is nothing to move",
    ),
)

STEPS: Final[tuple[OperationStep, ...]] = (
    *_BEGINNING,
    *_PAUSING,
    *_UNCERTAIN,
    *_CANCELLING,
    *_ENDING,
)
"""Every legal step, in the order in which an operation would take them."""

TRANSITIONS: Final[Mapping[OperationState, frozenset[OperationState]]] = {
    state: frozenset(step.target for step in STEPS if step.source is state)
    for state in OperationState
}
"""The legal moves; `Operation.to` is the only way to make one."""


def step_between(source: OperationState, target: OperationState) -> OperationStep | None:
    """The step that leads from one state to another, or None if there is none."""
    return next((s for s in STEPS if s.source is source and s.target is target), None)
