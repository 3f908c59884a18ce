"""A plan that is started once more while its partitions move: what runs changes, the rest starts.

The expected words are those that an operator reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kshunt.backend.domain.audit.lines import AuditEvent
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.moves.pause_throttles import FLOOR_BYTES_PER_S
from kshunt.backend.operations.moves.schedule import Caps
from tests.support.operations.engine import tp
from tests.support.operations.engine_backend import TIMEOUT_S
from tests.support.operations.engine_world import Fault
from tests.support.operations.story import MB, RATE, Story, calls_until_the_request, cancel

PLAN = {"a-0": (1, 4), "a-3": (1, 5)}
MORE = {**PLAN, "a-1": (2, 4)}
ADA = Change(who="ada", reason="the night is over")


def rate_texts(rate: int) -> tuple[str, str]:
    return str(rate), str(rate)


def results(answer: ChangeAnswer) -> dict[str, str]:
    assert not answer.failures
    return {one.item: one.message for one in answer.results}


def audit_of(story: Story, answer: ChangeAnswer, event: AuditEvent) -> list[Mapping[str, Any]]:
    bodies = [entry.body for entry in story.world.state.entries.values()]
    return [
        body
        for body in bodies
        if body.get("operation_id") == answer.operation_id and body.get("event") == event
    ]


def test_the_same_plan_with_another_rate_changes_the_operation_that_runs(story: Story) -> None:
    first = story.start(PLAN)
    moving, effects = dict(story.world.ongoing), len(story.effects)
    again = story.start(PLAN, throttle_bytes_per_s=3 * MB, change=ADA)
    assert again.operation_id == first.operation_id
    assert len(list(story.backend.registry)) == 1
    assert again.already_moving == ("a-0", "a-3")
    assert again.rollback_plan == first.rollback_plan
    assert results(again) == dict.fromkeys(
        ("a-0", "a-3"), f"operation {first.operation_id} already moves it"
    )
    assert again.notes == (
        f"Operation {first.operation_id} already moves 2 partitions of this plan. kshunt changed "
        "its throttle from 500 kB/s to 3 MB/s. No new operation starts.",
    )
    assert story.operation(again).throttle_bytes_per_s == 3 * MB
    assert {story.rates(broker) for broker in (1, 2, 4, 5)} == {rate_texts(3 * MB)}
    assert story.world.ongoing == moving
    assert all(effect.kind != 0 for effect in story.effects[effects:]), "a move was submitted again"
    story.until_over()
    assert story.operation(again).state is OperationState.DONE
    assert story.throttles() == story.before


def test_a_cancellation_after_that_leaves_no_replica_more(story: Story) -> None:
    """Kafka would keep the new replicas, had the moves been submitted a second time."""
    story.start(PLAN)
    story.start(PLAN, throttle_bytes_per_s=3 * MB)
    assert not cancel(story, "a-0", "a-3").failures
    story.until_over()
    assert (story.replicas("a-0"), story.replicas("a-3")) == ((1, 2), (1, 2))
    assert story.throttles() == story.before


def test_the_journal_and_the_audit_have_it(story: Story) -> None:
    first = story.start(PLAN)
    story.start(PLAN, throttle_bytes_per_s=3 * MB, change=ADA)
    (line,) = audit_of(story, first, AuditEvent.CHANGED)
    assert (line["who"], line["reason"]) == ("ada", "the night is over")
    assert line["outcome"] == "its plan was started again: throttle 3 MB/s"
    assert "broker 4 follower rate: 500 kB/s → 3 MB/s" in line["touched"]["throttles"]
    # Another backend continues with the new rate.
    known = story.world.known
    assert known.operations[first.operation_id or ""].throttle_bytes_per_s == 3 * MB
    assert known.works[first.operation_id or ""].throttle_bytes_per_s == 3 * MB


def test_what_is_only_checked_changes_nothing(story: Story) -> None:
    first = story.start(PLAN)
    there = story.throttles()
    foreseen = story.start(PLAN, throttle_bytes_per_s=3 * MB, change=Change(validate_only=True))
    assert foreseen.validate_only
    assert foreseen.notes == (
        f"Operation {first.operation_id} already moves 2 partitions of this plan. kshunt would "
        "change its throttle from 500 kB/s to 3 MB/s. No new operation starts.",
    )
    assert story.throttles() == there
    assert story.operation(first).throttle_bytes_per_s == RATE


@pytest.mark.parametrize("rate", [RATE, None])
def test_the_same_plan_with_nothing_new_changes_nothing(story: Story, rate: int | None) -> None:
    first = story.start(PLAN)
    there = story.throttles()
    again = story.start(PLAN, throttle_bytes_per_s=rate)
    assert again.operation_id == first.operation_id
    assert again.notes == (
        f"Operation {first.operation_id} already moves 2 partitions of this plan, with throttle "
        "500 kB/s. kshunt changes nothing.",
    )
    assert story.throttles() == there
    assert len(list(story.backend.registry)) == 1


def test_without_a_flag_and_a_rate_it_is_refused(story: Story) -> None:
    story.start(PLAN)
    with pytest.raises(Conflict, match="already being reassigned"):
        story.start(PLAN, throttle_bytes_per_s=None, additional=False)


def test_a_move_without_a_throttle_gets_one(story: Story) -> None:
    first = story.start(PLAN, throttle_bytes_per_s=None)
    assert story.throttles() == story.before
    again = story.start(PLAN, throttle_bytes_per_s=RATE)
    assert again.operation_id == first.operation_id
    assert "its throttle from none to 500 kB/s" in again.notes[0]
    assert {story.rates(broker) for broker in (1, 2, 4, 5)} == {rate_texts(RATE)}
    lists = {name for kind, name, key in story.throttles() if "replicas" in key}
    assert lists == {"a"}
    story.until_over()
    assert story.throttles() == story.before


def test_partitions_that_wait_or_have_arrived_are_of_the_plan_that_runs(story: Story) -> None:
    first = story.start(MORE, caps=Caps(1, 1))
    for _ in range(100):
        if len(story.world.ongoing) == 1 and any(
            story.replicas(name) == target for name, target in MORE.items()
        ):
            break
        story.tick(1)
    again = story.start(MORE, throttle_bytes_per_s=3 * MB, additional=False)
    assert again.operation_id == first.operation_id
    assert again.already_moving == tuple(sorted(MORE))
    assert len(story.world.ongoing) == 1
    story.until_over()
    assert {name: story.replicas(name) for name in MORE} == MORE


def test_of_a_larger_plan_the_others_start_and_the_rest_stays_where_it_is(story: Story) -> None:
    first = story.start(PLAN)
    more = story.start(MORE, throttle_bytes_per_s=3 * MB)
    assert more.operation_id != first.operation_id
    assert story.operation(more).partitions == (tp("a-1"),)
    assert more.already_moving == ("a-0", "a-3")
    assert set(results(more)) == set(MORE)
    assert more.notes[-1] == (
        f"Operation {first.operation_id} already moves 2 partitions of this plan, and keeps them "
        "with throttle 500 kB/s. Only the others start."
    )
    rollback = {
        f"{one['topic']}-{one['partition']}": one["replicas"]
        for one in (more.rollback_plan or {})["partitions"]
    }
    assert rollback == {"a-0": [1, 2], "a-1": [2, 3], "a-3": [1, 2]}
    # The lowest rate is in force where both throttle.
    assert story.rates(4) == rate_texts(RATE)
    assert story.rates(3) == rate_texts(3 * MB)
    story.until_over()
    assert {name: story.replicas(name) for name in MORE} == MORE
    assert story.throttles() == story.before


def test_the_lower_rate_of_another_operation_is_said(story: Story) -> None:
    first, other = story.start(PLAN), story.start({"a-1": (2, 4)}, throttle_bytes_per_s=RATE // 2)
    again = story.start(PLAN, throttle_bytes_per_s=3 * MB)
    assert again.operation_id == first.operation_id
    assert again.notes[1:] == (
        f"Broker 2, 4 stays at 250 kB/s, the lower rate of operation {other.operation_id}.",
    )
    assert story.rates(5) == rate_texts(3 * MB)


@pytest.mark.parametrize("before", [RATE, None])
def test_a_pause_stays_and_is_resumed_with_the_new_rate(story: Story, before: int | None) -> None:
    first = story.start(PLAN, throttle_bytes_per_s=before)
    control = story.backend.operation_control
    story.world.run(control.pause(first.operation_id or "", Change()))
    story.tick(1)
    assert story.rates(4)[1] == str(FLOOR_BYTES_PER_S)
    again = story.start(PLAN, throttle_bytes_per_s=3 * MB)
    assert again.operation_id == first.operation_id
    assert again.notes[1:] == (
        f"Operation {first.operation_id} is paused: the new throttle holds once you resume it.",
    )
    story.tick(20)
    assert story.rates(4)[1] == str(FLOOR_BYTES_PER_S)
    story.world.run(control.resume(first.operation_id or "", Change()))
    story.tick(1)
    assert story.rates(4) == rate_texts(3 * MB)
    story.until_over()
    assert story.throttles() == story.before


def test_the_audit_of_a_cancellation_says_nothing_of_the_pause_before(story: Story) -> None:
    first = story.start(PLAN)
    control = story.backend.operation_control
    story.world.run(control.pause(first.operation_id or "", Change()))
    story.tick(1)
    story.world.run(control.resume(first.operation_id or "", Change()))
    cancel(story, "a-0", "a-3")
    (line,) = audit_of(story, first, AuditEvent.CANCELLED)
    assert line["outcome"] == "its partitions return to where they were"


def test_a_throttle_may_come_to_stay(story: Story) -> None:
    first = story.start(PLAN)
    again = story.start(PLAN, throttle_bytes_per_s=3 * MB, auto_remove_throttle=False)
    assert again.operation_id == first.operation_id
    story.until_over()
    assert story.rates(4) == rate_texts(3 * MB)


def test_what_somebody_else_moves_becomes_an_operation(story: Story) -> None:
    story.world.alter({tp("a-0"): (1, 4)})
    answer = story.start({"a-0": (1, 4)})
    assert story.operation(answer).partitions == (tp("a-0"),)
    assert answer.already_moving == ()


def test_a_cancelled_plan_starts_anew(story: Story) -> None:
    first = story.start(PLAN)
    cancel(story, "a-0", "a-3")
    story.tick()
    again = story.start(PLAN)
    assert again.operation_id != first.operation_id
    story.until_over()
    assert {name: story.replicas(name) for name in PLAN} == PLAN


def test_what_is_being_cancelled_is_not_started_until_the_cancellation_ends(story: Story) -> None:
    """The engine would return the new move with the old one, and call it somebody else's doing."""
    first = story.start(PLAN)
    cancel(story, "a-0", "a-3")
    assert story.operation(first).state is OperationState.CANCELLING
    known, throttles = len(list(story.backend.registry)), story.throttles()
    for change in (Change(validate_only=True), ADA):
        with pytest.raises(Conflict) as refused:
            story.start(MORE, change=change)
        assert str(refused.value) == (
            f"Operation {first.operation_id} is being cancelled and returns 2 partitions of this "
            "plan (a-0, a-3). Nothing was changed. Start the plan again when operation "
            f"{first.operation_id} has ended."
        )
    assert len(list(story.backend.registry)) == known
    assert (story.world.ongoing, story.throttles()) == ({}, throttles)
    story.tick()
    again = story.start(PLAN)
    story.until_over()
    assert story.operation(again).state is OperationState.DONE
    assert {name: story.replicas(name) for name in PLAN} == PLAN
    assert story.throttles() == story.before


def test_a_partition_that_a_running_operation_returns_waits_for_its_end(story: Story) -> None:
    first = story.start(PLAN)
    cancel(story, "a-0")
    with pytest.raises(Conflict) as refused:
        story.start({"a-0": PLAN["a-0"]})
    assert str(refused.value) == (
        f"Operation {first.operation_id} still runs and returns 1 partition of this plan (a-0). "
        f"Nothing was changed. Start the plan again when operation {first.operation_id} has ended."
    )
    # To other replicas it may go: the engine returns only what moves where the operation wanted it.
    other = story.start({"a-0": (1, 5)})
    story.until_over()
    assert story.operation(other).state is OperationState.DONE
    assert (story.replicas("a-0"), story.replicas("a-3")) == ((1, 5), PLAN["a-3"])


def test_an_undo_that_is_being_cancelled_is_not_started_again(story: Story) -> None:
    first = story.start(PLAN)
    story.until_over()

    def undo() -> ChangeAnswer:
        control = story.backend.operation_control
        return story.world.run(
            control.undo(first.operation_id or "", Change(), timeout_s=TIMEOUT_S)
        )

    undone = undo()
    cancel(story, "a-0", "a-3")
    with pytest.raises(Conflict, match=f"{undone.operation_id} is being cancelled"):
        undo()
    story.tick()
    again = undo()
    story.until_over()
    assert story.operation(again).state is OperationState.DONE
    assert (story.replicas("a-0"), story.replicas("a-3")) == ((1, 2), (1, 2))


def test_what_returns_is_not_adopted(story: Story) -> None:
    """Another tool starts the move anew before the tick: the engine returns it."""
    story.start(PLAN)
    cancel(story, "a-0", "a-3")
    story.world.alter({tp("a-0"): PLAN["a-0"]})
    with pytest.raises(Conflict):
        story.world.run(story.backend.operation_control.adopt(None, ADA))


def test_a_cancellation_without_an_answer_holds_up_a_start(story: Story) -> None:
    """Its operation is open until the engine knows, and takes a waiting move out of its queue."""
    number = calls_until_the_request(
        lambda twin: cancel(twin, "a-0"), lambda twin: twin.world.alter({tp("a-0"): (1, 4)})
    )
    story.world.alter({tp("a-0"): (1, 4)})
    story.world.plan_faults({number: Fault.LOST})
    answer = cancel(story, "a-0")
    story.world.plan_faults({})
    assert not story.operation(answer).state.ended
    with pytest.raises(Conflict, match=f"Operation {answer.operation_id} returns 1 partition"):
        story.start({"a-0": (1, 4)})
    story.tick()
    again = story.start({"a-0": (1, 4)})
    story.until_over()
    assert story.operation(again).state is OperationState.DONE
    assert story.replicas("a-0") == (1, 4)
