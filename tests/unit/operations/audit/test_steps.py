"""Which step of an operation is a line of the audit, of what event, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.audit.operation_steps import line_of, step_line
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork

State, Event, Kind = OperationState, AuditEvent, OperationKind
PLACE = TopicPartition("orders", 0)
MOVE = Operation(
    "op", Kind.REASSIGN, State.RUNNING, 1, "move orders", (PLACE,), who="ada", reason="full disks"
)
NOTHING = (Ownership(), Ownership())


def line(before: Operation | None, after: Operation, **more: Any) -> Any:
    return line_of(before, after, more.get("work"), NOTHING, "one", more.get("throttles"))


@pytest.mark.parametrize(
    ("before", "after", "kind", "event"),
    [
        (State.RUNNING, State.RUNNING, Kind.REASSIGN, None),
        (State.STARTING, State.RUNNING, Kind.REASSIGN, Event.STARTED),
        (State.STARTING, State.FAILED, Kind.REASSIGN, Event.REFUSED),
        (State.RUNNING, State.FAILED, Kind.REASSIGN, Event.ENDED),
        (State.RUNNING, State.DONE, Kind.REASSIGN, Event.ENDED),
        (State.STARTING, State.DONE, Kind.REASSIGN, Event.ENDED),
        (State.CANCELLING, State.CANCELLED, Kind.REASSIGN, Event.ENDED),
        (State.RESUMING, State.RUNNING, Kind.REASSIGN, None),
        (State.RUNNING, State.LIFTING, Kind.SHRINK, None),
        (State.LIFTING, State.FAILED, Kind.SHRINK, Event.ENDED),
    ],
)
def test_a_step_into_another_state_is_an_event(
    before: OperationState, after: OperationState, kind: OperationKind, event: AuditEvent | None
) -> None:
    found = line(replace(MOVE, state=before, kind=kind), replace(MOVE, state=after, kind=kind))
    assert (None if found is None else found.event) == event


def test_a_new_operation_is_a_request_with_its_reason() -> None:
    found = line(None, MOVE)
    assert (found.event, found.outcome, found.reason) == (
        *(Event.REQUESTED, "move orders", "full disks"),
    )
    assert (found.operation_id, found.kind, found.who, found.backend) == (
        *("op", "reassign", "ada", "one"),
    )
    assert (found.time_ms, found.number) == (0, 0)
    assert found.touched.partitions == (PLACE,)
    later = line(replace(MOVE, state=State.STARTING), MOVE)
    assert later.reason == ""


@pytest.mark.parametrize(
    ("state", "outcome", "words"),
    [
        (State.DONE, "", "done"),
        (State.DONE, "done", "done"),
        (State.DONE, "done: all of it", "done: all of it"),
        (State.DONE, "all of it", "done: all of it"),
        (State.FAILED, "no room", "failed: no room"),
        (State.PAUSING, "for ada", "for ada"),
    ],
)
def test_an_end_begins_with_how_it_ended(state: OperationState, outcome: str, words: str) -> None:
    assert line(MOVE, replace(MOVE, state=state, outcome=outcome)).outcome == words


def test_a_line_names_what_is_moved_and_what_was_read_of_its_throttles() -> None:
    work = ReassignmentWork({PLACE: Move(PLACE, (1, 2), (2, 3))})
    found = line(None, replace(MOVE, partitions=()), work=work, throttles=("broker 3: none",))
    assert found.touched.brokers == (1, 2, 3)
    assert found.touched.partitions == (PLACE,)
    assert found.touched.throttles == ("broker 3: none",)


# Shrinks

WORK = ShrinkWork(ShrinkRequest("orders", 2, 0), 4, "orders-copy", ShrinkPhase.COPY)
SHRINK = replace(MOVE, kind=Kind.SHRINK)


def told(before: ShrinkWork | None, after: ShrinkWork | None) -> str | None:
    found = step_line(before, after, SHRINK, "one")
    if found is None:
        return None
    assert (found.event, found.touched.topics) == (Event.CHANGED, ("orders",))
    assert (found.kind, found.who, found.backend) == ("shrink", "ada", "one")
    assert (found.time_ms, found.number) == (0, 0)
    return found.outcome


def test_what_somebody_agreed_to_is_a_line() -> None:
    typed = replace(WORK, confirmed="ada: too many")
    assert told(WORK, typed) == "the topic's name was typed by ada: too many"
    assert told(typed, typed) is None
    accepted = replace(typed, accepted=True, confirmed="bob")
    assert told(typed, accepted) == "the difference is accepted by bob"
    assert told(accepted, accepted) is None
    assert told(None, typed) is None
    assert told(typed, None) is None


def test_phases_that_change_the_cluster_for_good_are_lines() -> None:
    lines = {}
    for phase in ShrinkPhase:
        before = replace(WORK, phase=ShrinkPhase.CHECK)
        if (words := told(before, replace(WORK, phase=phase))) is not None:
            lines[phase] = words
        assert told(replace(WORK, phase=phase), replace(WORK, phase=phase)) is None
    assert ShrinkPhase.DELETE in lines
    assert ShrinkPhase.CHECK not in lines
