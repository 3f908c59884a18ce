"""What a claim holds back: changes of the moves, rates and lists of an operation that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.review.claims import Claims
from tests.support.operations.engine import tp
from tests.support.operations.story import Story

ADA, BOB = Requester("ada"), Requester("bob")


@pytest.fixture
def story() -> Iterator[Story]:
    """Two moves, of which ada steers the first."""
    found = Story()
    found.world.cluster.create("b", (1, 2))
    yield found
    found.world.close()


def claimed(story: Story) -> Claims:
    claims = Claims(story.backend.registry, story.world.clock)
    first = story.start({"a-0": (2, 3)})
    story.start({"b-0": (1, 5)})
    story.world.run(claims.claim(first.operation_id or "", ADA, take_over=False))
    return claims


def is_held(call: Callable[[], object]) -> bool:
    """Whether somebody else is said to steer it."""
    try:
        call()
    except Conflict as held:
        return "ada has claimed operation" in str(held)
    return False


@pytest.mark.parametrize(("broker", "held"), [(1, True), (2, True), (3, True), (5, False)])
def test_a_rate_that_a_claimed_move_needs_is_held(story: Story, broker: int, held: bool) -> None:
    claims = claimed(story)
    assert is_held(lambda: claims.require_rates([broker], BOB)) is held
    assert is_held(lambda: claims.require_rates([4, broker], BOB)) is held
    assert not is_held(lambda: claims.require_rates([broker], ADA))
    assert not is_held(lambda: claims.require_rates([], BOB))


@pytest.mark.parametrize(("topic", "held"), [("a", True), ("b", False)])
def test_a_list_that_a_claimed_move_needs_is_held(story: Story, topic: str, held: bool) -> None:
    claims = claimed(story)
    assert is_held(lambda: claims.require_lists([topic], BOB)) is held
    assert not is_held(lambda: claims.require_lists([topic], ADA))


@pytest.mark.parametrize(
    ("partitions", "held"), [(["a-0"], True), (["b-0", "a-0"], True), (["b-0"], False), ([], False)]
)
def test_a_partition_that_a_claimed_move_moves_is_held(
    story: Story, partitions: list[str], held: bool
) -> None:
    claims, named = claimed(story), list(map(tp, partitions))
    assert is_held(lambda: claims.require_moves(named, BOB)) is held
    assert not is_held(lambda: claims.require_moves(named, ADA))


def test_a_claim_of_a_move_that_has_ended_holds_nothing(story: Story) -> None:
    claims = claimed(story)
    story.until_over()
    assert not is_held(lambda: claims.require_rates(range(1, 6), BOB))
    assert not is_held(lambda: claims.require_moves([tp("a-0")], BOB))
