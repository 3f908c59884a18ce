"""Which moves start next: safety, caps, order, fairness, and a reason for each that waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.assignment import ClusterState
from kshunt.backend.domain.cluster.metadata import Broker, OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.errors import BadInput
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.moves.cluster_view import (
    ClusterView,
    effective_min_isr,
    under_min_isr,
    view_of,
)
from kshunt.backend.operations.moves.schedule import (
    Caps,
    MoveOrder,
    NextMoves,
    Queue,
    WaitReason,
    copying_brokers,
    isr_after,
    next_moves,
)
from tests.support.operations.engine import at, columns, moving, tp, view_with


def queue(plan: Mapping[str, tuple[int, ...]], **more: Any) -> Queue:
    return Queue({tp(name): target for name, target in plan.items()}, **more)


def started(batch: NextMoves) -> list[str]:
    return [str(move.partition) for move in batch.start]


def why(batch: NextMoves) -> dict[str, WaitReason]:
    return {str(partition): held.why for partition, held in batch.held.items()}


# Order and places


def test_the_defaults_are_named_in_limits() -> None:
    assert (Caps().per_broker, Caps().in_cluster) == (
        LIMITS.moves_per_broker,
        LIMITS.moves_in_cluster,
    )
    assert (LIMITS.moves_per_broker, LIMITS.moves_in_cluster) == (5, 200)


@pytest.mark.parametrize("caps", [(0, 5), (5, 0), (-1, 5)])
def test_a_cap_that_would_start_nothing_is_refused(caps: tuple[int, int]) -> None:
    with pytest.raises(BadInput):
        Caps(*caps)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (MoveOrder.LARGEST_FIRST, ["a-1", "a-2", "a-0", "a-3"]),
        (MoveOrder.SMALLEST_FIRST, ["a-0", "a-2", "a-1", "a-3"]),
    ],
)
def test_moves_go_by_the_bytes_they_copy_and_unknown_sizes_last(
    order: MoveOrder, expected: list[str]
) -> None:
    view = view_with(
        at("a-0", [1]), at("a-1", [1]), at("a-2", [1]), at("a-3", [1]),
        sizes={"a-0": 40, "a-1": 50, "a-2": 21},
    )  # fmt: skip
    # Two new replicas copy twice: a-2 is 42 bytes.
    plan = {"a-0": (2,), "a-1": (2,), "a-2": (2, 3), "a-3": (2,)}
    assert started(next_moves(queue(plan, order=order), view)) == expected


def test_one_broker_does_not_take_every_place() -> None:
    names = {f"a-{i}": (3,) for i in range(4)} | {f"b-{i}": (4,) for i in range(4)}
    states = [at(f"a-{i}", [1]) for i in range(4)] + [at(f"b-{i}", [2]) for i in range(4)]
    sizes = {f"a-{i}": 1000 for i in range(4)} | {f"b-{i}": 1 for i in range(4)}
    batch = next_moves(queue(names, caps=Caps(5, 4)), view_with(*states, sizes=sizes))
    assert started(batch) == ["a-0", "b-0", "a-1", "b-1"]
    assert set(why(batch).values()) == {WaitReason.CLUSTER_FULL}


def test_a_full_broker_is_named_and_others_go_past_it() -> None:
    view = view_with(at("a-0", [1]), at("a-1", [1]), at("a-2", [1]), at("b-0", [3]))
    plan = {"a-0": (2,), "a-1": (2,), "a-2": (2,), "b-0": (4,)}
    batch = next_moves(queue(plan, caps=Caps(2, 200)), view)
    assert started(batch) == ["a-0", "b-0", "a-1"]
    assert str(batch.held[tp("a-2")]) == "broker 1: 2 of 2 moves"
    assert str(batch) == "3 moves to start; 1 waiting: 1 for broker 1: 2 of 2 moves"


def test_moves_that_others_started_take_places_too() -> None:
    view = view_with(
        at("a-0", [1]), at("foreign-0", [5, 2], [5]), ongoing=[moving("foreign-0", [5], [2])]
    )
    batch = next_moves(queue({"a-0": (2,)}, caps=Caps(1, 200)), view)
    assert why(batch) == {"a-0": WaitReason.BROKER_FULL}


def test_a_move_whose_answer_was_lost_keeps_its_places() -> None:
    view = view_with(at("a-0", [1]), at("a-1", [3]))
    plan = {"a-0": (2,), "a-1": (2,)}
    lost = frozenset({tp("a-0")})
    waiting = queue(plan, caps=Caps(1, 200), started=lost, unanswered=lost)
    assert why(next_moves(waiting, view)) == {"a-1": WaitReason.BROKER_FULL}


def test_what_another_operation_was_just_given_is_taken() -> None:
    view = view_with(at("a-0", [1]), at("b-0", [3]))
    first = next_moves(queue({"a-0": (2,)}, caps=Caps(1, 200)), view)
    second = queue({"b-0": (2,)}, caps=Caps(1, 200))
    assert why(next_moves(second, view, claimed=first.start)) == {"b-0": WaitReason.BROKER_FULL}


def test_a_move_that_copies_nothing_needs_no_place() -> None:
    view = view_with(
        at("a-0", [1, 2]), at("a-1", [1, 2, 3]), at("b-0", [1, 2], [1]),
        ongoing=[moving("b-0", [1], [1, 2])],
    )  # fmt: skip
    batch = next_moves(queue({"a-0": (2, 1), "a-1": (2, 3)}, caps=Caps(1, 1)), view)
    assert started(batch) == ["a-0", "a-1"]


def test_one_request_takes_no_more_than_kafka_does() -> None:
    count = LIMITS.partitions_per_reassignment + 2
    states = [at(f"a-{i}", [1, 2]) for i in range(count)]
    batch = next_moves(queue({f"a-{i}": (2, 1) for i in range(count)}), view_with(*states))
    assert len(batch.start) == LIMITS.partitions_per_reassignment
    assert set(why(batch).values()) == {WaitReason.REQUEST_FULL}


# What a move waits for


def test_what_is_there_already_is_not_started() -> None:
    batch = next_moves(queue({"a-0": (1, 2)}), view_with(at("a-0", [1, 2])))
    assert (batch.start, batch.held, batch.arrived) == ((), {}, (tp("a-0"),))


@pytest.mark.parametrize(
    ("state", "target", "more", "expected"),
    [
        (at("a-0", [1, 2], [], -1), (2, 3), {}, WaitReason.NO_LEADER),
        (at("a-0", [1, 2]), (2, 3), {"live": (1, 2)}, WaitReason.BROKER_DOWN),
        (at("a-0", [1, 2]), (2, 3), {"min_isr": {}}, WaitReason.MIN_ISR_UNKNOWN),
        (at("a-0", [1, 2]), (2, 3), {"ongoing": [moving("a-0", [1, 2], [1, 4])]},
         WaitReason.MOVED_BY_OTHERS),
    ],
)  # fmt: skip
def test_a_move_that_cannot_start_says_why(
    state: Any, target: tuple[int, ...], more: Any, expected: WaitReason
) -> None:
    assert why(next_moves(queue({"a-0": target}), view_with(state, **more))) == {"a-0": expected}


def test_a_deleted_partition_and_a_paused_operation_wait() -> None:
    view = view_with(at("a-0", [1]))
    batch = next_moves(queue({"a-0": (2,), "a-1": (2,)}, paused=True), view)
    assert why(batch) == {"a-0": WaitReason.PAUSED, "a-1": WaitReason.GONE}


def test_a_broker_that_is_down_and_stays_in_the_list_holds_nothing() -> None:
    view = view_with(at("a-0", [1, 2, 3], [1, 2]), live=(1, 2, 4), min_isr=1)
    assert started(next_moves(queue({"a-0": (1, 3, 4)}), view)) == ["a-0"]


@pytest.mark.parametrize(
    ("replicas", "isr", "min_isr", "target", "expected"),
    [
        # All in sync.
        ((1, 2, 3), (1, 2, 3), 2, (4, 5, 6), None),
        ((1, 2, 3), (1, 2, 3), 3, (4, 5, 6), None),
        ((1,), (1,), 1, (2,), None),
        # Fewer replicas than min.insync.replicas, in the end or while it copies.
        ((1, 2, 3), (1, 2, 3), 2, (1,), WaitReason.WOULD_FALL_UNDER_MIN_ISR),
        ((1,), (1,), 2, (2,), WaitReason.WOULD_FALL_UNDER_MIN_ISR),
        ((1, 2), (1, 2), 3, (2, 3), WaitReason.WOULD_FALL_UNDER_MIN_ISR),
        # One is missing, with another to spare or without.
        ((1, 2, 3), (1, 2), 1, (4, 2, 3), None),
        ((1, 2, 3), (1, 2), 2, (4, 2, 3), WaitReason.AT_MIN_ISR),
        ((1, 2, 3), (1,), 2, (4, 2, 3), WaitReason.WOULD_FALL_UNDER_MIN_ISR),
        # The move brings more in sync than there are.
        ((1, 2, 3), (1, 2), 2, (1, 2, 4), None),
        ((1, 2, 3), (1,), 2, (1, 4, 3), None),
        # It removes what is in sync, and keeps what is not.
        ((1, 2, 3), (1, 2), 2, (1, 3), WaitReason.WOULD_FALL_UNDER_MIN_ISR),
        ((1, 2, 3), (1, 2), 1, (1, 3), None),
        ((1, 2, 3), (1, 2, 3), 2, (1, 3), None),
    ],
)
def test_no_move_takes_its_partition_under_min_isr(
    replicas: Any, isr: Any, min_isr: int, target: Any, expected: WaitReason | None
) -> None:
    view = view_with(at("a-0", replicas, isr), min_isr=min_isr)
    found = why(next_moves(queue({"a-0": target}), view)).get("a-0")
    assert found == expected


def test_an_operator_can_accept_the_risk_by_name() -> None:
    view = view_with(at("a-0", [1]), at("a-1", [1]), min_isr=2)
    plan = {"a-0": (2,), "a-1": (2,)}
    batch = next_moves(queue(plan, accepted=frozenset({tp("a-0")})), view)
    assert started(batch) == ["a-0"]
    assert "reject acks=all until its copy is in sync" in str(batch.held[tp("a-1")])


def test_partitions_elsewhere_under_min_isr_hold_all_and_let_go_when_that_is_over() -> None:
    low = at("other-0", [5, 6, 7], [5])
    sound = [at("a-0", [1, 2]), at("a-1", [1, 2])]
    min_isr = {"a": 1, "other": 2}
    plan = queue({"a-0": (2, 3), "a-1": (2, 3)})
    held = next_moves(plan, view_with(*sound, low, min_isr=min_isr))
    assert set(why(held).values()) == {WaitReason.MIN_ISR_ELSEWHERE}
    assert "other-0" in str(held)
    healed = at("other-0", [5, 6, 7], [5, 6])
    assert len(next_moves(plan, view_with(*sound, healed, min_isr=min_isr)).start) == 2


def test_a_partition_of_the_plan_under_min_isr_holds_only_itself() -> None:
    states = [at("a-0", [1, 2, 3], [1]), at("a-1", [1, 2, 3])]
    batch = next_moves(queue({"a-0": (4, 2, 3), "a-1": (4, 2, 3)}), view_with(*states, min_isr=2))
    assert started(batch) == ["a-1"]


def test_a_move_that_heals_starts_though_others_are_under_min_isr() -> None:
    """A broker is gone for good: draining it must not wait for what only draining can repair."""
    states = [at("a-0", [1, 2, 3], [1]), at("b-0", [4, 2, 3], [4]), at("a-1", [4, 5, 6])]
    plan = queue({"a-0": (1, 4, 5), "a-1": (5, 6, 7)})
    batch = next_moves(plan, view_with(*states, min_isr=2))
    assert started(batch) == ["a-0"]
    assert why(batch) == {"a-1": WaitReason.MIN_ISR_ELSEWHERE}


# Laws

brokers = st.integers(1, 6)
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Queue, ClusterView]:
    """A plan and a cluster in any condition, some of the plan under way."""
    states, ongoing, plan = [], [], {}
    for number in range(draw(st.integers(1, 8))):
        name = f"{draw(st.sampled_from('ab'))}-{number}"
        current, target = draw(replica_lists), draw(replica_lists)
        isr = [b for b in current if draw(st.integers(0, 3))]
        if draw(st.integers(0, 3)) == 0 and set(current) - set(target) and isr:
            move = moving(name, current, target)
            ongoing.append(move)
            states.append(at(name, move.replicas, isr))
        else:
            states.append(at(name, current, isr))
        if draw(st.integers(0, 4)):
            plan[tp(name)] = target
    view = view_with(
        *states,
        ongoing=ongoing,
        live=draw(st.frozensets(brokers, min_size=4)),
        min_isr=draw(st.dictionaries(st.sampled_from("ab"), st.integers(1, 3))),
        sizes={str(state.partition): draw(st.integers(0, 9)) for state in states},
    )
    taken = frozenset(p for p in plan if draw(st.integers(0, 5)) == 0)
    caps = Caps(draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    return Queue(plan, started=taken, caps=caps, order=draw(st.sampled_from(MoveOrder))), view


def load(view: ClusterView, moves: tuple[Move, ...]) -> tuple[Counter[int], int]:
    """Moves in flight by broker and in all, if these start too."""
    sets = [
        {view.leader_of(p), *move.adding} - {-1} for p, move in view.ongoing.items() if move.adding
    ] + [set(copying_brokers(move, view)) for move in moves if move.adding]
    return Counter(broker for brokers in sets for broker in brokers), len(sets)


@given(situations())
def test_every_waiting_move_is_in_exactly_one_place(situation: Any) -> None:
    plan, view = situation
    batch = next_moves(plan, view)
    places = [*(move.partition for move in batch.start), *batch.held, *batch.arrived]
    assert sorted(places) == sorted(plan.waiting)
    assert all(str(held) for held in batch.held.values())


@given(situations())
def test_caps_hold_and_no_place_stays_free(situation: Any) -> None:
    plan, view = situation
    batch = next_moves(plan, view)
    before, _ = load(view, ())
    by_broker, in_all = load(view, batch.start)
    assert in_all <= max(plan.caps.in_cluster, load(view, ())[1])
    assert all(n <= max(plan.caps.per_broker, before[b]) for b, n in by_broker.items())
    for partition, held in batch.held.items():
        if held.why is WaitReason.BROKER_FULL:
            move = view.move_to(partition, plan.plan[partition])
            full = [b for b in copying_brokers(move, view) if by_broker[b] >= plan.caps.per_broker]
            assert full
        if held.why is WaitReason.CLUSTER_FULL:
            assert in_all >= plan.caps.in_cluster


@given(situations())
def test_no_started_move_can_take_a_partition_under_min_isr(situation: Any) -> None:
    plan, view = situation
    for move in next_moves(plan, view).start:
        isr = view.partitions[move.partition].isr
        min_isr = view.min_isr[move.partition.topic]
        now_low = len(isr) < effective_min_isr(min_isr, len(move.current))
        meanwhile = effective_min_isr(min_isr, len({*move.current, *move.target}))
        after = isr_after(move, isr)
        assert now_low or len(isr) >= meanwhile
        assert len(after) >= effective_min_isr(min_isr, len(move.target)) or len(after) > len(isr)
        assert not now_low or len(after) > len(isr)


@given(situations())
def test_a_batch_depends_on_nothing_but_its_input(situation: Any) -> None:
    plan, view = situation
    backwards = replace(plan, plan=dict(reversed(plan.plan.items())))
    turned = replace(view, partitions=dict(reversed(view.partitions.items())))
    one, other = next_moves(plan, view), next_moves(backwards, turned)
    assert (one.start, one.held) == (other.start, other.held)


@given(situations())
def test_while_others_are_under_min_isr_only_healing_moves_start(situation: Any) -> None:
    plan, view = situation
    if view.under_min_isr - plan.plan.keys():
        for move in next_moves(plan, view).start:
            isr = view.partitions[move.partition].isr
            assert len(isr_after(move, isr)) > len(isr)


@given(st.lists(st.tuples(replica_lists, replica_lists), min_size=1, max_size=12), st.data())
def test_a_sound_plan_comes_to_its_end_under_any_caps(moves: Any, data: st.DataObject) -> None:
    states = {tp(f"a-{i}"): at(f"a-{i}", current) for i, (current, _) in enumerate(moves)}
    plan = {tp(f"a-{i}"): target for i, (_, target) in enumerate(moves)}
    caps = Caps(data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3)))
    waiting = Queue(plan, caps=caps)
    ongoing: dict[str, OngoingReassignment] = {}
    for _ in range(3 * len(plan) + 1):
        view = view_with(*states.values(), ongoing=ongoing.values())
        batch = next_moves(waiting, view)
        waiting = replace(waiting, started=waiting.started | {m.partition for m in batch.start})
        for move in batch.start:
            name = str(move.partition)
            ongoing[name] = moving(name, move.current, move.target)
            states[move.partition] = at(name, ongoing[name].replicas, move.current)
        if ongoing:
            ended = ongoing.pop(data.draw(st.sampled_from(sorted(ongoing))))
            states[ended.partition] = at(str(ended.partition), ended.target)
    assert {p: state.replicas for p, state in states.items()} == plan


# The view


def test_under_min_isr_counts_as_kafka_does() -> None:
    states = (
        at("a-0", [1, 2, 3], [1]), at("a-1", [1, 2, 3], [1, 2]), at("a-2", [1], [1]),
        at("b-0", [1, 2], [2]), at("c-0", [1, 2], []),
    )  # fmt: skip
    found = under_min_isr(columns(*states), {"a": 2, "b": 1})
    assert found == {tp("a-0")}, "a-2 has one replica only; of c nothing is known"
    assert under_min_isr(columns(), {}) == frozenset()


def test_a_view_has_the_asked_topics_and_what_is_low_anywhere() -> None:
    states = (at("a-0", [1, 2]), at("b-0", [1, 2], [1]), at("c-0", [2, 1]))
    known = {b: Broker(b, "host", 9092) for b in (1, 2)}
    state = ClusterState("here", 1, known, columns(*states))
    ongoing = {tp("c-0"): moving("c-0", [2], [1])}
    view = view_of(state, ongoing, min_isr={"a": 2, "b": 2, "c": 1}, topics=["a"])
    assert view.partitions.keys() == {tp("a-0"), tp("c-0")}
    assert view.under_min_isr == {TopicPartition("b", 0)}
    assert view.live == {1, 2}
