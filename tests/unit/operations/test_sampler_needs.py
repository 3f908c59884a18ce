"""What the sampler asks of our operations: what they move, what waits, and what a pause holds."""

from __future__ import annotations

from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.operations.throttles.sampler_needs import (
    RunningOperations,
    needed_lists,
    paused_partitions,
)
from tests.support.operations.engine import tp
from tests.support.operations.story import Story


def test_copies_are_held_from_the_moment_that_a_pause_begins(story: Story) -> None:
    answer = story.start({"a-0": (3, 4)})
    registry = story.backend.registry
    running = RunningOperations(registry)
    (before,) = running()
    assert (before.id, [*before.partitions], before.held) == (
        answer.operation_id,
        [tp("a-0")],
        False,
    )
    assert running()[0] is before, "it is made once"
    story.world.run(registry.move(before.id, OperationState.PAUSING, "for ada"))
    assert running()[0].held
    assert not paused_partitions(registry)
    story.world.run(registry.move(before.id, OperationState.PAUSED, ""))
    assert running()[0].held
    assert paused_partitions(registry) == {tp("a-0")}
    story.world.run(registry.move(before.id, OperationState.RESUMING, ""))
    assert not running()[0].held


def test_lists_of_running_operations_are_needed_by_side(story: Story) -> None:
    assert needed_lists(story.backend.registry.ownership) == {}
    story.start({"a-0": (3, 4)})
    needed = needed_lists(story.backend.registry.ownership)
    assert [*needed] == ["a"]
    assert (str(needed["a"].leaders), str(needed["a"].followers)) == ("0:1,0:2", "0:3,0:4")
    story.until_over()
    assert needed_lists(story.backend.registry.ownership) == {}
