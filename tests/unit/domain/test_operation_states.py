"""The states of an operation: the table's own laws, and a walk through it with crashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kshunt.backend.domain.operations.lifecycle import (
    STEPS,
    TRANSITIONS,
    OperationState,
    OperationStep,
    step_between,
)
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.errors import Conflict
from tests.support.documents.code_tables import steps_table
from tests.support.runs.examples import many

S = OperationState
FINAL = {
    S.DONE, S.CANCELLED, S.PARTLY_CANCELLED, S.CANCELLED_ELSEWHERE, S.SUPERSEDED, S.FAILED
}  # fmt: skip
EVER_LEGAL = {
    (S.STARTING, S.RUNNING), (S.STARTING, S.DONE), (S.STARTING, S.FAILED),
    (S.RUNNING, S.LIFTING), (S.RUNNING, S.FAILED),
    (S.LIFTING, S.DONE), (S.LIFTING, S.CANCELLED), (S.LIFTING, S.FAILED),
}  # fmt: skip
"""What operations without a queue rely on."""


def operation(state: OperationState = S.QUEUED) -> Operation:
    return Operation("op-1", OperationKind.REASSIGN, state, 0, "move 2 partitions")


def reachable(start: OperationState) -> set[OperationState]:
    found, edge = {start}, [start]
    while edge:
        for state in TRANSITIONS[edge.pop()] - found:
            found.add(state)
            edge.append(state)
    return found


def test_exactly_the_final_states_have_no_way_out() -> None:
    assert {state for state in S if state.ended} == FINAL


@pytest.mark.parametrize("state", S)
def test_a_state_has_words_for_people_and_a_short_one_for_a_narrow_column(
    state: OperationState,
) -> None:
    assert "_" not in state.words
    assert len(state.brief) <= 10
    assert sum(other.brief == state.brief for other in S) == 1
    assert state.ended or not state.went_wrong


@pytest.mark.parametrize("state", [state for state in S if not state.ended])
def test_every_state_can_reach_an_end_and_be_cancelled(state: OperationState) -> None:
    assert reachable(state) >= {S.CANCELLED, S.FAILED, S.DONE}


def test_every_state_is_reached_from_the_queue() -> None:
    assert reachable(S.QUEUED) == set(S)


def test_what_was_legal_stays_legal() -> None:
    assert {(step.source, step.target) for step in STEPS} >= EVER_LEGAL


@pytest.mark.parametrize(
    ("asked", "states"),
    [
        ("hold", {S.QUEUED}),
        ("withdraw", {S.QUEUED}),
        ("pause", {S.RUNNING, S.RESUMING}),
        ("resume", {S.PAUSING, S.PAUSED}),
        ("cancel", {S.STARTING, S.RUNNING, S.PAUSING, S.PAUSED, S.RESUMING, S.UNKNOWN}),
    ],
)
def test_an_operator_can_change_their_mind_while_the_last_request_is_carried_out(
    asked: str, states: set[OperationState]
) -> None:
    assert {step.source for step in STEPS if step.name == asked} == states


def test_words_of_how_far_it_was_end_with_the_state_that_they_are_about() -> None:
    resumed = operation(S.RUNNING).with_outcome("resumed", is_progress=True)
    assert resumed.to(S.CANCELLING, at_ms=1).outcome == ""
    refused = operation(S.RUNNING).with_outcome("2 refused")
    assert refused.to(S.CANCELLING, at_ms=1).outcome == "2 refused"


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_says_all_there_is_to_say(step: OperationStep) -> None:
    assert step.source is not step.target
    assert all((step.precondition, step.effect, step.observe, step.undo))
    same = [other for other in STEPS if other.name == step.name]
    assert {replace(other, source=step.source) for other in same} == {step}
    assert step_between(step.source, step.target) is step


def test_no_two_steps_lead_the_same_way() -> None:
    assert len({(step.source, step.target) for step in STEPS}) == len(STEPS)


def test_only_a_step_of_the_table_is_taken() -> None:
    for source in S:
        for target in S:
            if step_between(source, target) is None:
                with pytest.raises(Conflict, match="cannot become"):
                    operation(source).to(target, at_ms=1)
            else:
                assert operation(source).to(target, at_ms=1).state is target


def test_the_table_for_readers_has_a_row_for_each_step() -> None:
    rows = steps_table().splitlines()
    assert len(rows) == 2 + len({step.name for step in STEPS})
    assert {row.count("|") for row in rows} == {8}


# A walk on a model of the cluster


@dataclass(frozen=True)
class World:
    """One operation of two partitions, as the cluster has it, and what the journal holds."""

    where: tuple[str, str] = ("original", "original")
    """Each partition: `original`, `moving` or `target`."""
    rate: str = "prior"
    """`prior`, `ours` or `floor`."""
    throttled: bool = True
    """Whether the operation brings a throttle."""
    dropped: bool = False
    """Whether what waits was taken out of the queue."""
    submitted: bool = False
    """Whether a move was ever submitted, as the journal says."""
    originals_lost: bool = False
    """Whether no original replica is in sync, so that the cluster refuses to cancel."""

    @property
    def moving(self) -> bool:
        return "moving" in self.where

    @property
    def waiting(self) -> bool:
        return not self.dropped and "original" in self.where

    def with_rate(self, rate: str) -> World:
        return replace(self, rate=rate) if self.throttled or rate != "ours" else self.unthrottled()

    def unthrottled(self) -> World:
        return replace(self, rate="prior")

    def with_all(self, old: str, new: str) -> World:
        first, second = (new if where == old else where for where in self.where)
        return replace(self, where=(first, second))

    def submit(self) -> World:
        return self if self.dropped else self.with_all("original", "moving")

    def cancel(self) -> World:
        stopped = self if self.originals_lost else self.with_all("moving", "original")
        return replace(stopped, dropped=True)


EFFECTS: Mapping[str, Callable[[World], World]] = {
    "start": lambda w: w.with_rate("ours"),
    "found_nothing": lambda w: w.with_rate("ours"),
    "submit": lambda w: w.submit(),
    "pause": lambda w: w.with_rate("floor"),
    "resume": lambda w: w.with_rate("ours"),
    "cancel_refused": lambda w: w.with_rate("ours"),
    "cancel": lambda w: w.cancel(),
    "lift": lambda w: w.unthrottled(),
    "roll_back": lambda w: w.unthrottled(),
}
"""Steps that write something, and what."""


def at_rest(world: World) -> str:
    return "ours" if world.throttled else "prior"


GUARDS: Mapping[str, Callable[[World], bool]] = {
    "start": lambda w: w.waiting,
    "hold": lambda w: True,
    "release": lambda w: not w.submitted,
    "withdraw": lambda w: True,
    "reject": lambda w: True,
    "submit": lambda w: w.rate == at_rest(w) and w.waiting,
    "apply": lambda w: False,
    "refuse": lambda w: w.rate == "prior" and not w.submitted,
    "roll_back": lambda w: not w.moving and "target" not in w.where,
    "pause": lambda w: True,
    "paused": lambda w: w.rate == "floor",
    "resume": lambda w: w.submitted,
    "resumed": lambda w: w.rate == at_rest(w),
    "lose_answer": lambda w: True,
    "found_moving": lambda w: w.where != ("original", "original"),
    "found_nothing": lambda w: w.where == ("original", "original"),
    "cancel": lambda w: True,
    "cancel_refused": lambda w: w.originals_lost and w.moving,
    "lift": lambda w: not w.moving and not w.waiting,
    "finish": lambda w: w.rate == "prior" and w.where == ("target", "target"),
    "cancelled": lambda w: w.rate == "prior" and w.dropped and "target" not in w.where,
    "partly_cancelled": lambda w: (
        w.rate == "prior" and w.dropped and {*w.where} == {"original", "target"}
    ),
    "give_up": lambda w: w.rate == "prior" and "target" not in w.where,
    "cancelled_elsewhere": lambda w: False,
    "superseded": lambda w: False,
    "vanished": lambda w: (
        not w.throttled and w.rate == "prior" and w.where == ("original", "original")
    ),
}
"""The preconditions of the table, on the model."""


def test_the_model_knows_every_step() -> None:
    names = {step.name for step in STEPS}
    assert GUARDS.keys() == names
    assert EFFECTS.keys() <= names
    for step in STEPS:
        writes = not step.effect.startswith("none")
        assert writes == (step.name in EFFECTS) or step.name in ("apply", "found_nothing")


STARTED = ("start", "submit")


class Walk(RuleBasedStateMachine):
    """An engine on the model: steps, effects that are lost, take-overs, and a busy cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.operation = operation()
        self.world = World()
        self.last = ""
        """The step that the journal names last."""
        self.effect_done = True

    @initialize(throttled=st.booleans(), already=st.sampled_from([(), ("start",), STARTED]))
    def begin(self, throttled: bool, already: tuple[str, ...]) -> None:
        self.world = World(throttled=throttled)
        for name in already:
            self.take(next(step for step in self.open_steps() if step.name == name))

    def open_steps(self) -> list[OperationStep]:
        """The steps that may be taken: legal, and their preconditions hold."""
        state = self.operation.state
        return [s for s in STEPS if s.source is state and GUARDS[s.name](self.world)]

    def take(self, step: OperationStep, *, lost: bool = False) -> None:
        self.operation = self.operation.to(step.target, at_ms=1)
        self.last = step.name
        if step.name == "submit":
            self.world = replace(self.world, submitted=True)
        self.effect_done = not lost
        if not lost:
            self.world = self.effect(step.name)(self.world)

    @staticmethod
    def effect(name: str) -> Callable[[World], World]:
        return EFFECTS.get(name, lambda world: world)

    @rule(data=st.data(), lost=st.sampled_from([False, False, True]), end=st.integers(0, 7))
    def step(self, data: st.DataObject, lost: bool, end: int) -> None:
        """An end is taken seldom, so that walks are long."""
        found = [step for step in self.open_steps() if end == 0 or not step.target.ended]
        if found:
            self.take(data.draw(st.sampled_from(found)), lost=lost)

    @rule(data=st.data())
    def two_more_steps(self, data: st.DataObject) -> None:
        self.step(data, lost=False, end=1)
        self.step(data, lost=False, end=1)

    @rule()
    def another_backend_takes_over(self) -> None:
        """It knows the journal only, and not whether the effect was done."""
        self.effect_done = True
        if self.last == "submit" and self.operation.state is S.RUNNING:
            lost = step_between(S.RUNNING, S.UNKNOWN)
            assert lost is not None
            self.take(lost)
        else:
            self.world = self.effect(self.last)(self.world)

    @rule()
    def the_effect_of_the_last_step_is_repeated(self) -> None:
        if self.effect_done and self.last != "submit":
            assert self.effect(self.last)(self.world) == self.world or self.world_moved_on()

    def world_moved_on(self) -> bool:
        """A cancellation that the cluster refused can succeed when it is repeated."""
        return self.last == "cancel" and self.world.moving

    @rule(first=st.booleans())
    def a_copy_arrives(self, first: bool) -> None:
        if self.world.where[0 if first else 1] == "moving":
            one, other = self.world.where
            self.world = replace(self.world, where=("target", other) if first else (one, "target"))
            if not self.world.moving:
                self.world = replace(self.world, originals_lost=False)

    @rule()
    def the_original_replicas_fall_out_of_sync(self) -> None:
        self.world = replace(self.world, originals_lost=self.world.moving)

    @precondition(lambda self: self.operation.state in (S.QUEUED, S.RUNNING, S.LIFTING))
    @rule(wanted=st.sampled_from(sorted(S)))
    def an_illegal_step_is_refused(self, wanted: OperationState) -> None:
        if step_between(self.operation.state, wanted) is None:
            with pytest.raises(Conflict):
                self.operation.to(wanted, at_ms=1)

    @invariant()
    def nothing_of_a_queued_operation_is_in_the_cluster(self) -> None:
        if self.operation.state is S.QUEUED:
            assert self.world.where == ("original", "original")
            assert self.world.rate == "prior"

    @invariant()
    def an_ended_operation_has_left_no_throttle_and_nothing_moving(self) -> None:
        if self.operation.state.ended:
            assert self.world.rate == "prior"
            assert not self.world.moving

    @invariant()
    def a_paused_operation_is_held(self) -> None:
        if self.operation.state is S.PAUSED and self.world.moving and self.effect_done:
            assert self.world.rate == "floor"

    def teardown(self) -> None:
        """From here an end is reached: by cancelling, and by finishing what cannot be cancelled."""
        self.another_backend_takes_over()
        for _ in range(30):
            if self.operation.state.ended:
                return
            self.settle()
        pytest.fail(f"no end from {self.operation.state}: {self.world}")

    def settle(self) -> None:
        order = ("cancelled", "partly_cancelled", "finish", "give_up", "withdraw", "lift",
                 "cancel_refused", "resumed", "roll_back", "cancel")  # fmt: skip
        found = {step.name: step for step in self.open_steps()}
        if self.last == "cancel_refused" or (self.last == "resumed" and self.world.originals_lost):
            self.a_copy_arrives(True)
            self.a_copy_arrives(False)
        chosen = next((found[name] for name in order if name in found), None)
        if chosen is not None:
            self.take(chosen)


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=many(200), stateful_step_count=30)
