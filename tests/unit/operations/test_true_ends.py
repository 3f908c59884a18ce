"""An operation ends in the state that is true, and its audit says what was read back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.owners import OrphanOrigin
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.operation_control import actions_of
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.throttles.repair import change_id, orphan_words
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import TIMEOUT_S, Backend
from tests.support.operations.engine_world import BROKER, TOPIC, Crash, Effect, Fault
from tests.support.operations.story import RATE, Story, calls_of_commits, cancel

State = OperationState
THEIRS = 77_000_000


def lines(story: Story, operation_id: str | None) -> list[dict[str, Any]]:
    """The lines of the audit of one operation, oldest first."""
    found = sorted(story.world.state.entries.items())
    bodies = [dict(entry.body) for key, entry in found if key.startswith("audit/")]
    return [body for body in bodies if body["operation_id"] == operation_id]


def last(story: Story, answer: ChangeAnswer) -> dict[str, Any]:
    return lines(story, answer.operation_id)[-1]


# --- ends


def test_what_somebody_else_cancelled_is_not_done(story: Story) -> None:
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    story.world.alter({tp("a-0"): None, tp("a-1"): None})
    story.until_over()
    operation = story.operation(answer)
    assert operation.state is State.CANCELLED_ELSEWHERE
    assert "0 of 2 where the plan wants them" in operation.outcome
    assert "2 cancelled by somebody else" in operation.outcome
    assert story.throttles() == story.before
    assert last(story, answer)["outcome"].startswith("cancelled elsewhere: ")


def test_what_somebody_else_moved_elsewhere_is_superseded(story: Story) -> None:
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    story.world.alter({tp("a-0"): (5, 2)})
    story.until_over()
    operation = story.operation(answer)
    assert operation.state is State.SUPERSEDED
    assert "1 of 2 where the plan wants them" in operation.outcome
    assert "a-0 is [5, 2]" in operation.outcome
    assert story.throttles() == story.before


def test_what_was_cancelled_in_part_is_partly_cancelled(story: Story) -> None:
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    cancel(story, "a-1")
    story.until_over()
    operation = story.operation(answer)
    assert operation.state is State.PARTLY_CANCELLED
    assert operation.outcome.startswith("1 of 2 where the plan wants them, 1 cancelled")
    assert "undo" in actions_of(operation, story.backend.registry.work(operation.id))


def test_what_arrived_before_its_cancellation_is_done(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    story.world.cluster.pass_s(200)
    assert not story.world.ongoing
    cancel(story, "a-0")
    story.until_over()
    assert story.operation(answer).state is State.DONE


def test_an_end_that_a_broker_behind_could_feign_is_looked_at_twice(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    story.world.alter({tp("a-0"): None})
    story.tick()
    assert story.operation(answer).state is State.LIFTING
    story.tick(1)
    assert story.operation(answer).state is State.LIFTING
    story.tick(2)
    assert story.operation(answer).state is State.CANCELLED_ELSEWHERE


# --- a cancellation that was cut off


def calls_of_a_cancellation() -> int:
    """How many calls a cancellation makes, in a world like the story's."""
    twin = Story()
    twin.start({"a-0": (3, 4), "a-1": (4, 5)})
    twin.world.plan_faults({})
    cancel(twin, "a-0", "a-1")
    twin.world.close()
    return twin.world.calls


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.DIES, Fault.DIES_AFTER, Fault.LOST])
def test_a_recorded_cancellation_is_finished_wherever_it_was_cut_off(fault: Fault) -> None:
    recorded = 0
    for call in range(calls_of_a_cancellation()):
        story = Story()
        answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
        story.world.plan_faults({call: fault})
        with contextlib.suppress(Crash, KshuntError):
            cancel(story, "a-0", "a-1")
        story.world.plan_faults({})
        if not story.backend.alive:
            heir = Backend(story.world, "two")
            story.world.run(heir.engine.recover(heir.registry.unfinished))
            story.backend = heir
        story.until_over()
        cancels = of_kind(story, OperationKind.CANCEL)
        recorded += bool(cancels)
        if cancels:
            assert [one.state for one in cancels] == [State.DONE], (call, cancels)
            assert story.operation(answer).state is State.CANCELLED, call
            assert sorted(story.replicas("a-0")) == [1, 2]
        assert story.throttles() == story.before
        story.world.close()
    assert recorded > 3


def of_kind(story: Story, kind: OperationKind) -> list[Operation]:
    return [one for one in story.backend.registry if one.kind is kind]


def test_a_part_that_was_not_returned_is_returned_by_the_successor(story: Story) -> None:
    """One of two came back before the backend died; the other still moves."""
    plan = {"a-0": (3, 4), "a-1": (4, 5)}
    commits = calls_of_commits(
        lambda twin: cancel(twin, *plan), before=lambda twin: twin.start(plan)
    )
    answer = story.start(plan)
    story.world.plan_faults({commits[1]: Fault.DIES_AFTER})
    with pytest.raises(Crash):
        cancel(story, "a-0", "a-1")
    story.world.plan_faults({})
    story.world.alter({tp("a-0"): None})
    story.backend = Backend(story.world, "two")
    story.world.run(story.backend.engine.recover(story.backend.registry.unfinished))
    story.until_over()
    assert story.operation(answer).state is State.CANCELLED
    assert [one.state for one in of_kind(story, OperationKind.CANCEL)] == [State.DONE]


def test_a_cancellation_says_that_the_order_changes_and_undo_restores_it(story: Story) -> None:
    answer = story.start({"a-0": (3, 2)})
    note = " ".join(cancel(story, "a-0").notes)
    assert "a-0 returns as [2, 1], was [1, 2]" in note
    assert f"Undo operation {answer.operation_id}" in note
    story.until_over()
    assert story.operation(answer).state is State.CANCELLED
    assert story.replicas("a-0") == (2, 1)
    story.world.run(
        story.backend.operation_control.undo(
            answer.operation_id or "", Change(), timeout_s=TIMEOUT_S
        )
    )
    story.until_over()
    assert story.replicas("a-0") == (1, 2)


# --- what the audit says of throttles


def test_the_audit_says_what_was_read_back_by_broker(story: Story) -> None:
    story.world.set(BROKER, "1", RateKey.LEADER, "5000000")
    answer = story.start({"a-0": (3, 4)})
    story.tick()
    story.world.set(BROKER, "3", RateKey.FOLLOWER, str(THEIRS))
    story.until_over()
    found = {str(words) for words in last(story, answer)["touched"]["throttles"]}
    assert f"broker 3 {RateKey.FOLLOWER.words}: {exact_rate_text(THEIRS)}" in found
    assert f"broker 1 {RateKey.LEADER.words}: 5 MB/s" in found
    assert f"broker 4 {RateKey.LEADER.words}: none" in found
    assert f"topic a {ListKey.LEADERS.words}: no replicas" in found
    outcome = story.operation(answer).outcome
    assert (
        f"broker 3 {RateKey.FOLLOWER.words} is {exact_rate_text(THEIRS)}, set by somebody else"
        in outcome
    )
    told = " ".join(str(line["touched"]["throttles"]) for line in lines(story, answer.operation_id))
    assert f"broker 3 {RateKey.FOLLOWER.words}: {exact_rate_text(RATE)} →" not in told
    assert story.rates(3)[1] == str(THEIRS)


def test_a_rate_that_comes_before_the_write_is_left_and_told(story: Story) -> None:
    """It comes with the journal's entry of the step: after the decision, before the write."""
    answer = story.start({"a-0": (3, 4)})
    story.world.cluster.pass_s(200)

    def edit(before: object, after: object) -> None:
        if story.operation(answer).state is not State.LIFTING and story.rates(3)[1] == str(RATE):
            story.world.set(BROKER, "3", RateKey.FOLLOWER, str(THEIRS))

    story.world.committed = edit
    story.until_over()
    assert story.rates(3)[1] == str(THEIRS)
    words = f"broker 3 {RateKey.FOLLOWER.words} is {exact_rate_text(THEIRS)} instead of none"
    assert words in story.operation(answer).outcome
    assert words in last(story, answer)["outcome"]


def test_a_default_that_comes_back_is_named(story: Story) -> None:
    story.world.set(BROKER, "", RateKey.LEADER, "90000000")
    answer = story.start({"a-0": (3, 4)})
    first = lines(story, answer.operation_id)[0]["touched"]["throttles"]
    words = "no rate of its own, by default 90 MB/s"
    assert f"broker 3 {RateKey.LEADER.words}: {words} → {exact_rate_text(RATE)}" in first
    story.until_over()
    assert (
        f"broker 3 {RateKey.LEADER.words}: {words}" in last(story, answer)["touched"]["throttles"]
    )


def test_drift_is_in_the_audit_once(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    story.tick()
    story.world.set(BROKER, "3", RateKey.FOLLOWER, str(THEIRS))
    story.world.set(TOPIC, "a", ListKey.LEADERS, "0:1")
    for _ in range(3):
        story.tick()
    found = [x for x in lines(story, answer.operation_id) if x["event"] == AuditEvent.DRIFT_FOUND]
    assert len(found) == 1
    told = " ".join(found[0]["touched"]["throttles"])
    assert f"{exact_rate_text(THEIRS)} instead of {exact_rate_text(RATE)}" in told
    assert "lacks 0:2" in told
    heir = Backend(story.world, "two")
    story.backend = heir
    story.tick()
    again = [x for x in lines(story, answer.operation_id) if x["event"] == AuditEvent.DRIFT_FOUND]
    assert len(again) == 1, "a successor does not tell it again"


def test_drift_that_comes_back_is_told_again(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    for value in (THEIRS, RATE, THEIRS):
        story.world.set(BROKER, "3", RateKey.FOLLOWER, str(value))
        story.tick()
    found = [x for x in lines(story, answer.operation_id) if x["event"] == AuditEvent.DRIFT_FOUND]
    assert len(found) == 2


def test_an_abandoned_broker_is_remembered_with_what_it_had_before(story: Story) -> None:
    story.world.set(BROKER, "4", RateKey.FOLLOWER, "5000000")
    answer = story.start({"a-0": (3, 4)})
    one = answer.operation_id or ""
    story.world.cluster.pass_s(200)
    story.world.stop(4)
    story.tick()
    assert story.operation(answer).state is State.LIFTING, story.operation(answer)
    story.world.run(story.backend.operation_control.abandon(one, [4], Change()))
    for _ in range(5):
        story.tick(3)
    assert story.operation(answer).state.ended
    assert f"broker 4 {RateKey.FOLLOWER.words} could not be read" in story.operation(answer).outcome
    story.world.restart(4)
    mending = story.backend.mending
    found = {orphan_words(one): one for one in story.world.run(mending.orphans())}
    left = found[f"{RateKey.FOLLOWER.words} of broker 4: {exact_rate_text(RATE)}"]
    assert (left.origin, left.operations) == (OrphanOrigin.LEFT_BY_US, (one,))
    ids = [change_id(orphan) for orphan in found.values()]
    story.world.run(mending.remove_orphans(ids, Change()))
    assert story.throttles() == story.before | {(BROKER, "4", RateKey.FOLLOWER): "5000000"}


def test_what_was_cancelled_here_and_moved_there_is_not_partly_cancelled(story: Story) -> None:
    """Nothing of it is where the plan wanted it."""
    answer = story.start({"a-0": (3, 4), "a-1": (4, 5)})
    cancel(story, "a-0")
    story.world.alter({tp("a-1"): (1, 5)})
    story.until_over()
    operation = story.operation(answer)
    assert operation.state is State.SUPERSEDED
    assert "0 of 2 where the plan wants them, 1 cancelled, 1 moved by" in operation.outcome


def test_a_rate_that_comes_while_the_lists_are_written_is_left(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    story.world.cluster.pass_s(200)

    def edit(effect: Effect) -> None:
        if effect.kind == TOPIC:
            story.world.set(BROKER, "3", RateKey.FOLLOWER, str(THEIRS))

    story.world.effected = edit
    story.until_over()
    assert story.rates(3)[1] == str(THEIRS)
    assert (
        f"broker 3 {RateKey.FOLLOWER.words} is {exact_rate_text(THEIRS)}"
        in story.operation(answer).outcome
    )
