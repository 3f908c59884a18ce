"""Moves of others whose throttle kshunt takes over: what it would lift, and what is lifted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from tests.support.operations.engine import tp
from tests.support.operations.engine_world import BROKER, TOPIC
from tests.support.operations.story import Story

DRY, REAL = Change(validate_only=True), Change(who="ada")


@pytest.fixture
def story() -> Iterator[Story]:
    """Kafka's own tool moves a partition, with a throttle, and another one without."""
    found = Story()
    found.world.alter({tp("a-0"): (3, 4), tp("a-3"): (4, 5)})
    for broker in (1, 2, 3, 4):
        for key in (RateKey.LEADER, RateKey.FOLLOWER):
            found.world.set(BROKER, str(broker), key, "500000")
    found.world.set(TOPIC, "a", ListKey.LEADERS, "0:1,0:2")
    found.world.set(TOPIC, "a", ListKey.FOLLOWERS, "0:3,0:4")
    yield found
    found.world.close()


def told(answer: ChangeAnswer) -> dict[str, str]:
    assert {(one.error_code, one.error_name) for one in answer.results} <= {(0, "NONE")}
    return {one.item: one.message for one in answer.results}


def test_what_would_come_off_is_said_and_nothing_is_written(story: Story) -> None:
    before = story.throttles()
    answer = story.world.run(story.backend.operation_control.adopt([tp("a-0")], DRY))
    assert told(answer) == {
        **{
            f"broker {broker} {side} rate": "kshunt removes 500 kB/s at the end"
            for broker in (1, 2, 3, 4)
            for side in ("leader", "follower")
        },
        "topic a leader list": "2 replicas are removed",
        "topic a follower list": "2 replicas are removed",
    }
    assert (answer.validate_only, answer.operation_id) == (True, None)
    assert [*story.backend.registry] == []
    assert story.throttles() == before


def test_what_is_adopted_comes_off_when_the_move_has_ended(story: Story) -> None:
    answer = story.world.run(story.backend.operation_control.adopt([tp("a-0")], REAL))
    assert not answer.validate_only
    operation = story.operation(answer)
    assert (operation.kind, operation.state) == (OperationKind.ADOPT, OperationState.RUNNING)
    assert operation.summary == "adopt the throttle of 1 partition of a"
    assert (operation.partitions, operation.outcome) == ((tp("a-0"),), "adopted")
    story.until_over()
    assert story.operation(answer).state is OperationState.DONE
    assert story.replicas("a-0") == (3, 4)
    assert not any(story.throttles().values())


def test_all_that_others_move_is_adopted_where_nothing_is_named(story: Story) -> None:
    answer = story.world.run(story.backend.operation_control.adopt(None, REAL))
    assert story.operation(answer).partitions == (tp("a-0"), tp("a-3"))
    assert story.operation(answer).summary == "adopt the throttle of 2 partitions of a"
    with pytest.raises(Conflict):
        story.world.run(story.backend.operation_control.adopt(None, REAL))


def test_it_says_where_partitions_were_so_that_one_that_arrived_still_counts(story: Story) -> None:
    answer = story.world.run(story.backend.operation_control.adopt(None, REAL))
    story.until_over()
    plan = story.operation(answer).details.rollback_plan
    assert plan is not None
    said = {f"{row['topic']}-{row['partition']}": row["replicas"] for row in plan["partitions"]}
    assert said == {"a-0": [1, 2], "a-3": [1, 2]}


def test_moves_without_a_throttle_leave_nothing_to_lift(story: Story) -> None:
    for kind, name, key in [*story.throttles()]:
        story.world.set(kind, name, key, None)
    answer = story.world.run(story.backend.operation_control.adopt([tp("a-3")], REAL))
    assert told(answer) == {}
    assert answer.notes == ("The moves have no throttle of their own; there is nothing to remove.",)


def test_what_does_not_move_cannot_be_adopted(story: Story) -> None:
    with pytest.raises(Conflict):
        story.world.run(story.backend.operation_control.adopt([tp("a-1")], REAL))
    assert [*story.backend.registry] == []
