"""What the cluster refuses as a whole: kshunt says so immediately and takes it back for good."""

from __future__ import annotations

import contextlib

import pytest

from kshunt.backend.admin.rpc.request_fate import FATES, Fate, fate_of
from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.error_codes import NAMES
from kshunt.backend.errors import (
    BrokerUnreachable,
    ClusterError,
    ClusterUnreachable,
    KshuntError,
    NotAuthorized,
    NotSupported,
)
from kshunt.backend.operations.ownership.cells import ListKey
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import Backend
from tests.support.operations.engine_world import BROKER, TOPIC, Crash, Fault
from tests.support.operations.story import RATE, Story, calls_until_the_request, cancel

DENIED, UNSUPPORTED, NOT_CONTROLLER, INVALID_REQUEST, INVALID_RECORD = 31, 35, 41, 42, 87
NO_REASSIGNMENT = 85
State = OperationState


@pytest.mark.parametrize("code", [DENIED, UNSUPPORTED, INVALID_REQUEST, INVALID_RECORD])
def test_a_refused_start_is_taken_back_at_once_and_never_starts(story: Story, code: int) -> None:
    story.world.set(BROKER, "1", "leader.replication.throttled.rate", "7000000")
    before = story.throttles()
    story.world.whole_error = code
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    assert [one.error_code for one in answer.results] == [code, code]
    assert any("former values" in note for note in answer.notes)
    operation = story.operation(answer)
    assert (operation.state, story.throttles()) == (State.FAILED, before)
    assert NAMES[code] in operation.outcome
    story.world.whole_error = 0
    story.tick(10)
    assert not story.world.ongoing
    assert not story.backend.registry.unfinished


def test_a_later_batch_that_is_refused_takes_the_throttle_back(story: Story) -> None:
    """The answer of the first request was lost, and the cluster refuses its repetition."""
    story.world.plan_faults({calls_until_the_request(start_one): Fault.DIES})
    with pytest.raises(Crash):
        story.start({"a-0": (3, 4)})
    story.backend = Backend(story.world, "two")
    story.world.plan_faults({})
    story.world.whole_error = DENIED
    story.tick()
    story.until_over()
    assert [one.state for one in story.backend.registry] == [State.FAILED]
    assert story.throttles() == story.before
    assert not story.world.ongoing


def start_one(story: Story) -> None:
    story.start({"a-0": (3, 4)})


def test_a_start_without_a_controller_is_submitted_again(story: Story) -> None:
    story.world.whole_error = NOT_CONTROLLER
    answer = story.start({"a-0": (3, 4)})
    assert "submits it again" in answer.results[0].message
    assert story.operation(answer).state is State.STARTING
    story.world.whole_error = 0
    story.until_over()
    assert story.operation(answer).state is State.DONE


def test_a_repeated_cancellation_leaves_alone_what_somebody_else_moves_since(
    story: Story,
) -> None:
    """The partition did not move when the operator asked, so that move was not meant."""
    start_one(story)
    call = calls_until_the_request(lambda twin: cancel(twin, "a-0", "a-1"), before=start_one)
    story.world.plan_faults({call: Fault.REFUSED})
    answer = cancel(story, "a-0", "a-1")
    assert story.operation(answer).state is State.STARTING
    story.world.plan_faults({})
    story.world.set(TOPIC, "a", ListKey.FOLLOWERS, "0:3,0:4,1:5")
    story.world.alter({tp("a-1"): (4, 5)})
    story.tick()
    assert story.world.ongoing.keys() == {tp("a-1")}
    assert story.world.config(TOPIC, "a", ListKey.FOLLOWERS) == "1:5"
    operation = story.operation(answer)
    assert operation.state is State.DONE
    assert "a-1: NO_REASSIGNMENT_IN_PROGRESS" in operation.outcome


@pytest.mark.parametrize("call", range(10))
def test_a_cancellation_finished_after_its_move_has_ended_keeps_what_was_listed_before(
    story: Story, call: int
) -> None:
    """A call of the first one fails; the second one ends the move before the first is repeated."""
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1")
    before = story.throttles()
    names = ("a-0", "a-1")
    story.start({"a-0": (1, 2, 3), "a-1": (2,)}, throttle_bytes_per_s=None)
    story.world.plan_faults({call: Fault.REFUSED})
    with contextlib.suppress(KshuntError):
        cancel(story, *names)
    story.world.plan_faults({})
    story.world.run(story.backend.registry.resolve())
    cancel(story, *names)
    story.until_over()
    assert not story.world.ongoing
    assert story.throttles() == before


def test_a_cancellation_of_what_the_cluster_never_took_clears_nothing(story: Story) -> None:
    """The partition does not move, so what somebody else has listed for it is not for a move."""
    story.world.set(TOPIC, "a", ListKey.FOLLOWERS, "0:1,0:4")
    story.world.down.add(5)
    started = story.start({"a-0": (4, 5), "a-1": (3, 4)}, throttle_bytes_per_s=None)
    assert [one.ok for one in started.results] == [False, True]
    answer = cancel(story, "a-0")
    assert [one.error_code for one in answer.results] == [NO_REASSIGNMENT]
    assert story.world.config(TOPIC, "a", ListKey.FOLLOWERS) == "0:1,0:4"


def test_a_move_that_is_cancelled_twice_ends_as_partly_cancelled(story: Story) -> None:
    """The second time nothing moves: one partition has arrived, the other one has returned."""
    started = story.start({"a-0": (1, 2, 3), "a-1": (2,)})
    story.tick()
    for _ in range(2):
        cancel(story, "a-0", "a-1")
    story.until_over()
    operation = story.operation(started)
    assert operation.state is State.PARTLY_CANCELLED


def test_a_refused_cancellation_leaves_the_move_and_its_throttle(story: Story) -> None:
    started = story.start({"a-0": (1, 3)})
    story.world.whole_error = DENIED
    answer = cancel(story, "a-0")
    assert [one.error_code for one in answer.results] == [DENIED]
    assert story.operation(answer).state is State.FAILED
    story.tick()
    assert story.rates(3) == (str(RATE), str(RATE))
    story.world.whole_error = 0
    story.tick()
    assert tp("a-0") in story.world.ongoing, "a refused cancellation is not carried out later"
    story.until_over()
    assert story.operation(started).state is State.DONE
    assert story.replicas("a-0") == (1, 3)
    assert story.throttles() == story.before


def test_the_audit_says_that_a_refused_start_ended(story: Story) -> None:
    story.world.whole_error = DENIED
    answer = story.start({"a-0": (3, 4)})
    bodies = [entry.body for entry in story.world.state.entries.values()]
    events = [b["event"] for b in bodies if b.get("operation_id") == answer.operation_id]
    assert events[0] == AuditEvent.REQUESTED
    assert events[-1] in (AuditEvent.REFUSED, AuditEvent.ENDED)
    assert story.operation(answer).kind is OperationKind.REASSIGN


def answered(code: int) -> KshuntError:
    error = ClusterError("It answers.")
    error.answered_code = code
    return error


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (answered(DENIED), Fate.REFUSED),
        (answered(UNSUPPORTED), Fate.REFUSED),
        (answered(NOT_CONTROLLER), Fate.RETRY),
        (answered(7), Fate.IN_DOUBT),
        (answered(-1), Fate.IN_DOUBT),
        (answered(9_999), Fate.IN_DOUBT),
        (NotAuthorized("refused"), Fate.REFUSED),
        (NotSupported("refused"), Fate.REFUSED),
        (BrokerUnreachable("silent"), Fate.IN_DOUBT),
        (ClusterUnreachable("silent"), Fate.IN_DOUBT),
    ],
    ids=str,
)
def test_a_failure_of_a_whole_request_says_what_became_of_it(
    error: KshuntError, fate: Fate
) -> None:
    assert fate_of(error) is fate


def test_every_code_of_the_table_is_kafkas() -> None:
    assert FATES.keys() <= NAMES.keys()
