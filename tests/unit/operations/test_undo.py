"""The way back of an operation, and cancelling chosen partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.moves.schedule import Queue, next_moves
from kshunt.backend.operations.moves.undo_plans import cancel_plan, undo_plan
from tests.support.operations.engine import at, moving, tp, view_with

MOVE = Move(tp("a-0"), (1, 2), (2, 3))


def test_what_is_where_we_put_it_goes_back() -> None:
    undo = undo_plan([MOVE], view_with(at("a-0", [2, 3])))
    assert undo.plan.replicas == {tp("a-0"): (1, 2)}
    assert undo.plan.cluster_id == "here"
    assert str(undo) == "1 partition to move back"


def test_what_is_where_it_was_stays() -> None:
    undo = undo_plan([MOVE], view_with(at("a-0", [1, 2])))
    assert (undo.already, len(undo.plan)) == ((tp("a-0"),), 0)


def test_a_cancelled_partition_gets_the_order_of_its_replicas_back() -> None:
    """Kafka puts the target first, so a cancellation leaves 2,1 where 1,2 was."""
    undo = undo_plan([MOVE], view_with(at("a-0", [2, 1])))
    assert undo.plan.replicas == {tp("a-0"): (1, 2)}


@pytest.mark.parametrize(
    ("states", "more", "reason"),
    [
        ([], {}, "it was deleted since then"),
        ([at("a-0", [4, 5])], {}, "somebody else moved it to [4, 5] since then"),
        ([at("a-0", [3, 2])], {}, "its replicas were reordered to [3, 2] since then"),
        ([at("a-0", [2, 3])], {"live": (2, 3)}, "its former broker 1 does not exist any more"),
        ([at("a-0", [4, 2, 3], [2, 3])], {"ongoing": [moving("a-0", [2, 3], [4, 3])]},
         "it is now being moved to [4, 3]"),
    ],
)  # fmt: skip
def test_what_must_not_go_back_is_named(states: Any, more: Any, reason: str) -> None:
    undo = undo_plan([MOVE], view_with(*states, **more))
    assert undo.left_out == {tp("a-0"): reason}
    assert len(undo.plan) == 0
    assert str(undo) == "0 partitions to move back, 1 left out: a-0"


def test_a_broker_that_is_down_and_stays_is_a_warning() -> None:
    undo = undo_plan([MOVE], view_with(at("a-0", [2, 3], [3]), live=(1, 3)))
    assert undo.plan.replicas == {tp("a-0"): (1, 2)}
    assert undo.warnings == ("Broker 2 is down; it keeps its place in a-0.",)


replica_lists = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple)


@given(st.lists(st.tuples(replica_lists, replica_lists, replica_lists), max_size=6))
def test_each_move_is_in_one_place_and_undoing_twice_does_nothing(cases: Any) -> None:
    moves = [Move(tp(f"a-{i}"), old, new) for i, (old, new, _) in enumerate(cases)]
    states = {tp(f"a-{i}"): at(f"a-{i}", now) for i, (_, _, now) in enumerate(cases)}
    undo = undo_plan(moves, view_with(*states.values()))
    places = [*undo.plan.replicas, *undo.left_out, *undo.already]
    assert sorted(places) == sorted(states)
    for partition, target in undo.plan.replicas.items():
        states[partition] = replace(states[partition], replicas=target, isr=target)
    again = undo_plan(moves, view_with(*states.values()))
    assert len(again.plan) == 0
    assert again.left_out == undo.left_out


# Cancelling chosen partitions

PLAN = {tp("a-0"): (2, 3), tp("a-1"): (2, 3), tp("a-2"): (2, 3), tp("a-3"): (2, 3)}
STARTED = frozenset({tp("a-0"), tp("a-1"), tp("a-2")})


def under_way() -> Any:
    return view_with(
        at("a-0", [2, 3, 1], [1, 2]), at("a-1", [2, 3]), at("a-2", [2, 5, 1], [1, 2]),
        at("a-3", [1, 2]), at("b-0", [1, 2]),
        ongoing=[moving("a-0", [1, 2], [2, 3]), moving("a-2", [1, 2], [2, 5])],
    )  # fmt: skip


def test_chosen_partitions_return_leave_the_queue_or_are_refused() -> None:
    queue = Queue(PLAN, started=STARTED)
    chosen = [*PLAN, tp("b-0"), tp("a-0")]
    cancel = cancel_plan(chosen, queue, under_way())
    assert {p: set(back) for p, back in cancel.returns.items()} == {tp("a-0"): {1, 2}}
    assert cancel.dropped == {tp("a-3")}
    assert cancel.refused == {
        tp("a-1"): "no longer moving; undo the operation to bring back what has moved",
        tp("a-2"): "somebody else is moving it to [2, 5]",
        tp("b-0"): "this operation does not include it",
    }


def test_what_was_cancelled_does_not_start_again() -> None:
    queue = Queue(PLAN, started=STARTED)
    cancel = cancel_plan([tp("a-3"), tp("a-0")], queue, under_way())
    gone = frozenset(cancel.dropped | cancel.returns.keys())
    batch = next_moves(replace(queue, dropped=gone), under_way())
    assert (batch.start, batch.held) == ((), {})


def test_a_copy_that_is_the_only_one_in_sync_is_not_cancelled() -> None:
    view = view_with(at("a-0", [3, 1], [3]), ongoing=[moving("a-0", [1], [3])])
    queue = Queue({tp("a-0"): (3,)}, started=frozenset({tp("a-0")}))
    cancel = cancel_plan([tp("a-0")], queue, view)
    assert "lose messages" in cancel.refused[tp("a-0")]


def test_a_lost_answer_is_cancelled_too() -> None:
    lost = frozenset({tp("a-3")})
    queue = Queue(PLAN, started=STARTED | lost, unanswered=lost)
    assert cancel_plan(lost, queue, under_way()).returns == {tp("a-3"): (1, 2)}
